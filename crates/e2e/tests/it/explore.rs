//! A stock gRPC client finds its way: health and reflection.

use e2e::{Stack, Wish};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

async fn ask(url: &str, question: MessageRequest) -> MessageResponse {
    let mut client = ServerReflectionClient::new(service_kit::grpc::channel(url).unwrap());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut answers =
        client.server_reflection_info(futures::stream::iter([request])).await.unwrap().into_inner();
    answers.message().await.unwrap().unwrap().message_response.unwrap()
}

/// Fails when a service is served without reflection or health.
#[tokio::test(flavor = "multi_thread")]
async fn services_and_their_fields_are_told_by_reflection() {
    let stack = Stack::start(Wish::default()).await;
    let ledger = stack.start_ledger_service().await;
    for (url, service) in
        [(stack.core_url(), "oncepay.core.v1.PaymentCore"), (ledger, "oncepay.ledger.v1.LedgerService")]
    {
        let MessageResponse::ListServicesResponse(list) =
            ask(&url, MessageRequest::ListServices(String::new())).await
        else {
            panic!("no list of services")
        };
        let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
        for name in [service, "grpc.health.v1.Health"] {
            assert!(names.contains(&name.to_owned()), "{name} not in {names:?}");
        }
        let symbol = MessageRequest::FileContainingSymbol(service.to_owned());
        let MessageResponse::FileDescriptorResponse(files) = ask(&url, symbol).await else {
            panic!("no descriptor")
        };
        assert!(!files.file_descriptor_proto.is_empty());
    }
}
