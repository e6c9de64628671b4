//! Transport: one file for each call; wire types stop here.

mod convert;
mod export_entries;
mod get_balance;
mod get_entry;
mod list_accounts;
mod list_entries;
mod page;
mod status;
mod trial_balance;

use std::pin::Pin;

use contract::ledger::ledger_service_server::LedgerService;
use contract::ledger::{
    ExportEntriesRequest, ExportEntriesResponse, GetBalanceRequest, GetBalanceResponse, GetEntryRequest,
    GetEntryResponse, ListAccountsRequest, ListAccountsResponse, ListEntriesRequest, ListEntriesResponse,
    TrialBalanceRequest, TrialBalanceResponse,
};
use futures::Stream;
use sqlx::PgPool;
use tonic::{Request, Response, Status};

/// The service behind the wire.
#[derive(Debug, Clone)]
pub(crate) struct Books {
    pub(crate) pool: PgPool,
}

#[tonic::async_trait]
impl LedgerService for Books {
    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Result<Response<ListAccountsResponse>, Status> {
        list_accounts::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn get_balance(
        &self,
        request: Request<GetBalanceRequest>,
    ) -> Result<Response<GetBalanceResponse>, Status> {
        get_balance::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn list_entries(
        &self,
        request: Request<ListEntriesRequest>,
    ) -> Result<Response<ListEntriesResponse>, Status> {
        list_entries::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn get_entry(
        &self,
        request: Request<GetEntryRequest>,
    ) -> Result<Response<GetEntryResponse>, Status> {
        get_entry::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    async fn trial_balance(
        &self,
        request: Request<TrialBalanceRequest>,
    ) -> Result<Response<TrialBalanceResponse>, Status> {
        trial_balance::handle(self, request.into_inner()).await.map(Response::new).map_err(status::of)
    }

    type ExportEntriesStream = Pin<Box<dyn Stream<Item = Result<ExportEntriesResponse, Status>> + Send>>;

    async fn export_entries(
        &self,
        request: Request<ExportEntriesRequest>,
    ) -> Result<Response<Self::ExportEntriesStream>, Status> {
        export_entries::handle(self, &request.into_inner()).map(Response::new).map_err(status::of)
    }
}
