//! `ListRefunds`: newest first, paged by the last number of the page before.

use contract::order::{ListRefundsRequest, ListRefundsResponse};
use contract::validate;
use pay_types::{Invalid, PayNo, RefundNo};

use super::{Core, convert, page};
use crate::Error;
use crate::store;

pub(super) async fn handle(core: &Core, request: ListRefundsRequest) -> Result<ListRefundsResponse, Error> {
    let merchant_id = validate::merchant_id(&request.merchant_id)?;
    let pay_no = match request.pay_no.as_str() {
        "" => None,
        text => Some(text.parse::<PayNo>().map_err(validate::invalid)?),
    };
    let before = match request.page_token.as_str() {
        "" => None,
        text => Some(text.parse::<RefundNo>().map_err(|_| {
            validate::invalid(Invalid::new("page_token", "must be the next_page_token of the page before"))
        })?),
    };
    let size = page::size(request.page_size)?;
    let rows = store::refund::page(
        &core.channels.pool,
        &merchant_id,
        pay_no.as_ref(),
        before.as_ref(),
        page::rows_max(size),
    )
    .await?;
    let (rows, next_page_token) = page::cut(rows, size, |refund| refund.refund_no.to_string());
    Ok(ListRefundsResponse { refunds: rows.into_iter().map(convert::refund).collect(), next_page_token })
}
