//! One request and its answer.
//!
//! The channel signs no answers; that it is the channel is TLS's word. So an answer counts when it is JSON in the channel's
//! form, and anything else, a gateway's error page for one, is no answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};

use super::form::Form;
use super::settings::Settings;
use super::states;
use crate::port::Outcome;
use crate::strict_json;

/// The version whose objects we read. Without it the account's own would count, and somebody may change that one.
const API_VERSION: &str = "2025-03-31.basil";
const VERSION: HeaderName = HeaderName::from_static("stripe-version");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Largest answer: a hundred refunds of about a kilobyte each, with air for what an account hangs on them.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// What is asked.
pub(super) enum Ask {
    Get(Form),
    /// With an idempotency key, or without one where a repeat does no harm.
    Post(Form, Option<String>),
}

/// What requests over one account need beside its settings.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    http: reqwest::Client,
    base_url: String,
    limit: Duration,
}

/// A 2xx or 4xx in the channel's form.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Map<String, Value>,
}

impl Answer {
    /// The error in it; `None` for an answer that is none, or in no form of the channel's.
    pub(super) fn error(&self) -> Option<&Map<String, Value>> {
        self.body.get("error").and_then(Value::as_object)
    }

    pub(super) fn error_text(&self, name: &str) -> &str {
        self.error().and_then(|error| strict_json::text(error, name)).unwrap_or_default()
    }

    pub(super) fn refused<T>(&self) -> Outcome<T> {
        let (kind, code) = (self.error_text("type"), self.error_text("code"));
        states::refused(self.status.as_u16(), kind, code, self.error_text("message"))
    }
}

impl Exchange {
    pub(super) fn new(http: reqwest::Client, base_url: &str, limit: Duration) -> Self {
        Self { http, base_url: base_url.to_owned(), limit }
    }

    /// Sends a request, to the last byte of the answer, within the limit.
    ///
    /// # Errors
    /// Why there is no answer that can be read; something may have been done.
    pub(super) async fn send(
        &self,
        settings: &Settings,
        path: &str,
        ask: Ask,
    ) -> Result<Answer, &'static str> {
        let (status, body) = tokio::time::timeout(self.limit, self.exchange(settings, path, ask))
            .await
            .unwrap_or(Err("no answer within the time limit"))?;
        if status == StatusCode::TOO_MANY_REQUESTS {
            // Whoever said it, nothing went further.
            return Ok(Answer { status, body: strict_json::object(&body).unwrap_or_default() });
        }
        if !(status.is_success() || status.is_client_error()) {
            return Err("the channel answered neither 2xx nor 4xx");
        }
        let answer =
            Answer { status, body: strict_json::object(&body).ok_or("the answer is no JSON object")? };
        if status.is_client_error() && answer.error().is_none() {
            return Err("the answer is an error, and not in the channel's form");
        }
        Ok(answer)
    }

    async fn exchange(
        &self,
        settings: &Settings,
        path: &str,
        ask: Ask,
    ) -> Result<(StatusCode, Bytes), &'static str> {
        let mut headers = HeaderMap::new();
        let mut key = HeaderValue::try_from(format!("Bearer {}", settings.secret_key.expose()))
            .expect("checked keys are plain ASCII");
        key.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, key);
        headers.insert(VERSION, HeaderValue::from_static(API_VERSION));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let (method, url, body) = match ask {
            Ask::Get(query) => {
                (Method::GET, format!("{}{path}?{}", self.base_url, query.into_text()), String::new())
            }
            Ask::Post(form, idempotency_key) => {
                let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
                headers.insert(header::CONTENT_TYPE, form_type);
                if let Some(key) = idempotency_key {
                    let key = HeaderValue::try_from(key).expect("our numbers are plain ASCII");
                    headers.insert(IDEMPOTENCY_KEY, key);
                }
                (Method::POST, format!("{}{path}", self.base_url), form.into_text())
            }
        };
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
                Ok(Some(_)) => return Err("the answer is larger than 1 MiB"),
                Ok(None) => break,
                Err(_) => return Err("the connection was lost within the answer"),
            }
        }
        Ok((response.status(), body.freeze()))
    }
}
