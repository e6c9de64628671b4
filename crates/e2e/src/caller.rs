//! An internal client: makes a key once, sends it unchanged until it hears a final answer.

use std::time::Duration;

use contract::common::Money;
use contract::order::order_api_client::OrderApiClient;
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, GetPaymentRequest, Payment, get_payment_request::By,
};
use contract::reason::{Reason, of_status};
use service_kit::grpc::CarryTrace;
use test_kit::wait_for;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Deadline of one call.
const DEADLINE: Duration = Duration::from_secs(10);

/// A client of one copy of order-api.
#[derive(Debug, Clone)]
pub struct Caller(OrderApiClient<InterceptedService<Channel, CarryTrace>>);

impl Caller {
    /// A client of the order-api at `url`.
    ///
    /// # Panics
    /// When `url` is no address.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self(OrderApiClient::with_interceptor(service_kit::grpc::channel(url).unwrap(), CarryTrace))
    }

    /// One call, as it is answered.
    ///
    /// # Errors
    /// What order-api answers.
    pub async fn create(&self, request: CreatePaymentRequest) -> Result<CreatePaymentResponse, Status> {
        let mut request = Request::new(request);
        request.set_timeout(DEADLINE);
        self.0.clone().create_payment(request).await.map(tonic::Response::into_inner)
    }

    /// Calls with the same key until the answer is final: what the advice `same_key` asks of a client.
    ///
    /// # Panics
    /// When a final answer is no payment, or does not come.
    pub async fn pay(&self, request: &CreatePaymentRequest) -> Payment {
        wait_for("a final answer to CreatePayment", || async {
            match self.create(request.clone()).await {
                Ok(response) => response.payment,
                Err(status) => match of_status(&status) {
                    Some(Reason::InProgress | Reason::Unavailable | Reason::Overloaded) => None,
                    other => panic!("CreatePayment ended with {other:?}: {status}"),
                },
            }
        })
        .await
    }

    /// The payment now.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn get(&self, merchant_id: &str, pay_no: &str) -> Payment {
        let by = Some(By::PayNo(pay_no.to_owned()));
        let request = GetPaymentRequest { merchant_id: merchant_id.to_owned(), by };
        self.0.clone().get_payment(request).await.unwrap().into_inner().payment.unwrap()
    }

    /// The generated client, for other calls.
    #[must_use]
    pub fn client(&self) -> OrderApiClient<InterceptedService<Channel, CarryTrace>> {
        self.0.clone()
    }
}

/// A good request of a merchant for an order, of 19.99 yuan over the generic channel.
#[must_use]
pub fn request(merchant_id: &str, order_no: &str, key: &str) -> CreatePaymentRequest {
    CreatePaymentRequest {
        merchant_id: merchant_id.to_owned(),
        idempotency_key: key.to_owned(),
        order_no: order_no.to_owned(),
        attempt_no: 1,
        amount: Some(Money { amount: 1999, currency: "CNY".to_owned() }),
        channel: "generic".to_owned(),
        subject: "茶 tea".to_owned(),
        ..Default::default()
    }
}
