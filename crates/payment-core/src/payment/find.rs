//! Reading payments. A payment of another merchant does not exist for the caller.

use idempotency::log;
use pay_types::{AttemptNo, IdempotencyKey, MerchantId, OrderNo, PayNo};
use sqlx::PgPool;

use crate::Error;
use crate::payment::{Payment, create};
use crate::store;

/// How to find one payment.
#[derive(Debug, Clone)]
pub(crate) enum By {
    PayNo(PayNo),
    Attempt(OrderNo, AttemptNo),
    Key(IdempotencyKey),
}

/// One payment of a merchant.
pub(crate) async fn find(pool: &PgPool, merchant_id: &MerchantId, by: &By) -> Result<Option<Payment>, Error> {
    let found = match by {
        By::PayNo(number) => store::payment::by_number(pool, number).await?,
        By::Attempt(order_no, attempt_no) => {
            store::payment::by_attempt(pool, merchant_id, order_no, attempt_no.as_i16()).await?
        }
        By::Key(key) => match log::find(pool, &create::biz_key(merchant_id.as_str(), key.as_str())).await? {
            Some(row) => {
                store::payment::by_number(pool, &row.result_no.parse().map_err(Error::Corrupt)?).await?
            }
            None => None,
        },
    };
    Ok(found.filter(|payment| payment.merchant_id == *merchant_id))
}
