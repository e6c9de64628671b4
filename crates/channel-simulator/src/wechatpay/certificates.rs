//! The platform's certificates, sealed with the account's API v3 key.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};

use crate::app::Simulator;
use crate::wechatpay::call::{Answer, authenticate};
use crate::wechatpay::seal::sealed;

pub(super) async fn list(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    let call = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let certificates = call.side.keys.iter().filter_map(|key| Some((key, key.certificate.as_ref()?)));
    let data: Vec<Value> = certificates
        .map(|(key, certificate)| {
            json!({
                "serial_no": key.serial,
                "effective_time": "2020-01-01T08:00:00+08:00",
                "expire_time": "2050-01-01T08:00:00+08:00",
                "encrypt_certificate": sealed(&call.side, "certificate", certificate.expose().as_bytes()),
            })
        })
        .collect();
    if data.is_empty() {
        // An account that has public keys only.
        let answer = Answer::error(404, "RESOURCE_NOT_EXISTS", "the account has no platform certificate");
        return answer.signed(&simulator, &call);
    }
    Answer::well(json!({ "data": data })).signed(&simulator, &call)
}
