//! One signed request and its answer, not verified yet.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use service_kit::Clock;
use time::OffsetDateTime;

use super::settings::Settings;
use super::sign;

/// Largest answer: an order is a few kilobytes, two certificates are about ten.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What requests over one account need beside its settings.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    http: reqwest::Client,
    base_url: String,
    limit: Duration,
    clock: Clock,
}

/// An answer as it came.
pub(super) struct RawAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Exchange {
    pub(super) fn new(http: reqwest::Client, base_url: &str, limit: Duration, clock: Clock) -> Self {
        Self { http, base_url: base_url.to_owned(), limit, clock }
    }

    pub(super) fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    /// Sends a request, to the last byte of the answer, within the limit.
    ///
    /// # Errors
    /// Why there is no answer; something may have been sent.
    pub(super) async fn send(
        &self,
        settings: &Settings,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<RawAnswer, &'static str> {
        tokio::time::timeout(self.limit, self.exchange(settings, method, path, body))
            .await
            .unwrap_or(Err("no answer within the time limit"))
    }

    async fn exchange(
        &self,
        settings: &Settings,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<RawAnswer, &'static str> {
        let url = reqwest::Url::parse(&format!("{}{path}", self.base_url))
            .map_err(|_| "the address of the call is none")?;
        let sent = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let nonce = hex::encode_upper(rand::random::<[u8; 16]>());
        let mut headers = HeaderMap::new();
        headers.insert(
            header::AUTHORIZATION,
            sign::authorization(settings, method.as_str(), &sent, self.clock.now(), &nonce, &body),
        );
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(id) = settings.keys.answers_by() {
            let id = HeaderValue::from_str(id).expect("checked ids are plain ASCII");
            headers.insert(sign::SERIAL, id);
        }
        let mut response = self
            .http
            .request(method, url)
            .headers(headers)
            .body(body)
            .send()
            .await
            .map_err(|_| "the connection was lost before an answer")?;
        let mut body = BytesMut::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len().saturating_add(chunk.len()) <= ANSWER_BYTES_MAX => {
                    body.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => return Err("the answer is larger than 64 KiB"),
                Ok(None) => break,
                Err(_) => return Err("the connection was lost within the answer"),
            }
        }
        Ok(RawAnswer {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: body.freeze(),
        })
    }
}
