//! `ListPayments`: newest first, paged by the last number of the page before.

use contract::order::{ListPaymentsRequest, ListPaymentsResponse};
use contract::validate;
use pay_types::{Invalid, OrderNo, PayNo};

use super::{Core, convert};
use crate::Error;
use crate::store;

/// Payments a page when the caller names no number.
const PAGE_DEFAULT: i32 = 50;
/// Most payments a page: about 200 KiB on the wire.
const PAGE_MAX: i32 = 200;

pub(super) async fn handle(core: &Core, request: ListPaymentsRequest) -> Result<ListPaymentsResponse, Error> {
    let merchant_id = validate::merchant_id(&request.merchant_id)?;
    let order_no = match request.order_no.as_str() {
        "" => None,
        text => Some(text.parse::<OrderNo>().map_err(validate::invalid)?),
    };
    let before = match request.page_token.as_str() {
        "" => None,
        text => Some(text.parse::<PayNo>().map_err(|_| {
            validate::invalid(Invalid::new("page_token", "must be the next_page_token of the page before"))
        })?),
    };
    let size = match request.page_size {
        0 => PAGE_DEFAULT,
        size if (1..=PAGE_MAX).contains(&size) => size,
        _ => return Err(validate::invalid(Invalid::new("page_size", "must be 1 to 200")).into()),
    };
    // One row more than the page tells whether there is another one.
    let rows_max = i64::from(size).saturating_add(1);
    let mut rows =
        store::payment::page(&core.channels.pool, &merchant_id, order_no.as_ref(), before.as_ref(), rows_max)
            .await?;
    let full = usize::try_from(size).is_ok_and(|size| rows.len() > size);
    if full {
        rows.pop();
    }
    let next_page_token =
        rows.last().filter(|_| full).map(|payment| payment.pay_no.to_string()).unwrap_or_default();
    Ok(ListPaymentsResponse { payments: rows.into_iter().map(convert::payment).collect(), next_page_token })
}
