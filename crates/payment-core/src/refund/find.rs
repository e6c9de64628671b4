//! Reading refunds. A refund of another merchant does not exist for the caller.

use idempotency::log;
use pay_types::{IdempotencyKey, MerchantId, PayNo, RefundNo, RefundRequestNo};
use sqlx::PgPool;

use crate::Error;
use crate::refund::{Refund, create};
use crate::store;

/// How to find one refund.
#[derive(Debug, Clone)]
pub(crate) enum By {
    RefundNo(RefundNo),
    Request(PayNo, RefundRequestNo),
    Key(IdempotencyKey),
}

/// One refund of a merchant.
pub(crate) async fn find(pool: &PgPool, merchant_id: &MerchantId, by: &By) -> Result<Option<Refund>, Error> {
    let found = match by {
        By::RefundNo(number) => store::refund::by_number(pool, number).await?,
        By::Request(pay_no, request_no) => store::refund::by_request(pool, pay_no, request_no).await?,
        By::Key(key) => match log::find(pool, &create::biz_key(merchant_id.as_str(), key.as_str())).await? {
            Some(row) => {
                store::refund::by_number(pool, &row.result_no.parse().map_err(Error::Corrupt)?).await?
            }
            None => None,
        },
    };
    Ok(found.filter(|refund| refund.merchant_id == *merchant_id))
}
