//! An internal client: makes a key once, sends it unchanged until it hears a final answer.

use std::time::Duration;

use contract::common::Money;
use contract::order::get_refund_request::By as RefundBy;
use contract::order::order_api_client::OrderApiClient;
use contract::order::{
    CreatePaymentRequest, CreatePaymentResponse, CreateRefundRequest, CreateRefundResponse,
    GetPaymentRequest, GetRefundRequest, Payment, Refund, get_payment_request::By,
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

    /// One call to refund, as it is answered.
    ///
    /// # Errors
    /// What order-api answers.
    pub async fn refund(&self, request: CreateRefundRequest) -> Result<CreateRefundResponse, Status> {
        let mut request = Request::new(request);
        request.set_timeout(DEADLINE);
        self.0.clone().create_refund(request).await.map(tonic::Response::into_inner)
    }

    /// Calls with the same key until the answer is final.
    ///
    /// # Panics
    /// When a final answer is no refund, or does not come.
    pub async fn give_back(&self, request: &CreateRefundRequest) -> Refund {
        wait_for("a final answer to CreateRefund", || async {
            match self.refund(request.clone()).await {
                Ok(response) => response.refund,
                Err(status) => match of_status(&status) {
                    Some(Reason::InProgress | Reason::Unavailable | Reason::Overloaded) => None,
                    other => panic!("CreateRefund ended with {other:?}: {status}"),
                },
            }
        })
        .await
    }

    /// The refund now.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn get_refund(&self, merchant_id: &str, refund_no: &str) -> Refund {
        let by = Some(RefundBy::RefundNo(refund_no.to_owned()));
        let request = GetRefundRequest { merchant_id: merchant_id.to_owned(), by };
        self.0.clone().get_refund(request).await.unwrap().into_inner().refund.unwrap()
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

    /// The payment now, if order-api answers.
    pub async fn try_get(&self, merchant_id: &str, pay_no: &str) -> Option<Payment> {
        let by = Some(By::PayNo(pay_no.to_owned()));
        let mut request = Request::new(GetPaymentRequest { merchant_id: merchant_id.to_owned(), by });
        request.set_timeout(DEADLINE);
        self.0.clone().get_payment(request).await.ok()?.into_inner().payment
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

/// A good request to give back a part of a payment; the request number is the key.
#[must_use]
pub fn refund_request(payment: &Payment, minor: i64, key: &str) -> CreateRefundRequest {
    CreateRefundRequest {
        merchant_id: payment.merchant_id.clone(),
        idempotency_key: key.to_owned(),
        pay_no: payment.pay_no.clone(),
        refund_request_no: key.to_owned(),
        amount: Some(Money { amount: minor, currency: "CNY".to_owned() }),
        reason: "货物损坏 damaged".to_owned(),
        requested_by: "anna".to_owned(),
        ..Default::default()
    }
}
