//! `ListPayments`: newest first, paged by the last number of the page before.

use contract::order::{ListPaymentsRequest, ListPaymentsResponse};
use contract::validate;
use pay_types::{Invalid, OrderNo, PayNo};

use super::{Core, convert, page};
use crate::Error;
use crate::store;

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
    let size = page::size(request.page_size)?;
    let rows = store::payment::page(
        &core.channels.pool,
        &merchant_id,
        order_no.as_ref(),
        before.as_ref(),
        page::rows_max(size),
    )
    .await?;
    let (rows, next_page_token) = page::cut(rows, size, |payment| payment.pay_no.to_string());
    Ok(ListPaymentsResponse { payments: rows.into_iter().map(convert::payment).collect(), next_page_token })
}
