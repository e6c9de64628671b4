//! One batch to the broker: who was acknowledged, who is refused for its own sake, who has to be sent again.

use broker::{Kind, Producer, Record};
use contract::event::{self, header};
use service_kit::telemetry;
use time::format_description::well_known::Rfc3339;
use tracing::Span;

use crate::Error;
use crate::store::{Event, Session};
use crate::waves::Waves;

/// Times that a refused event is sent alone before it is believed. A broker judges a batch as a whole, so being refused in
/// company proves nothing; twice alone does, also where the broker was about to get other settings.
const ALONE_TRIES_MAX: i32 = 2;

/// What became of a batch; events by their place in it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) acknowledged: Vec<usize>,
    pub(crate) refused: Vec<Refused>,
    /// Sent, and neither acknowledged nor refused.
    pub(crate) failed: usize,
    /// Not sent, because an earlier event of the key was not acknowledged.
    pub(crate) held: usize,
    /// The worst fault, and the broker's word for it.
    pub(crate) fault: Option<(Kind, String)>,
}

/// An event that the broker does not take.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) index: usize,
    pub(crate) error: String,
    pub(crate) tries: i32,
}

enum Fate {
    Acknowledged,
    Refused { error: String, tries: i32 },
    Failed(broker::Error),
}

/// Publishes a batch in the order of each key. Between the waves the ownership is looked at.
///
/// # Errors
/// When the ownership was lost; what was acknowledged until then will be published again by the new owner.
pub(crate) async fn publish(
    producer: &Producer,
    topic: &str,
    events: &[Event],
    owner: &mut Session,
) -> Result<Outcome, Error> {
    let mut waves = Waves::new(events.iter().map(|event| event.partition_key.as_str()));
    let mut outcome = Outcome::default();
    let mut later = false;
    while let Some(wave) = waves.next() {
        if std::mem::replace(&mut later, true) {
            owner.check().await?;
        }
        let wave: Vec<_> = wave.into_iter().filter_map(|index| Some((index, events.get(index)?))).collect();
        for (index, event, fate) in send(producer, topic, &wave).await {
            match fate {
                Fate::Acknowledged => outcome.acknowledged.push(index),
                Fate::Refused { error, tries } => {
                    outcome.held = outcome.held.saturating_add(waves.hold(&event.partition_key));
                    outcome.refused.push(Refused { index, error, tries });
                }
                Fate::Failed(error) => {
                    outcome.held = outcome.held.saturating_add(waves.hold(&event.partition_key));
                    outcome.failed = outcome.failed.saturating_add(1);
                    outcome.fault = Some(worse(outcome.fault.take(), &error));
                }
            }
        }
    }
    Ok(outcome)
}

/// A client that is broken matters more than anything else.
fn worse(before: Option<(Kind, String)>, error: &broker::Error) -> (Kind, String) {
    before.filter(|(kind, _)| *kind == Kind::Broken).unwrap_or_else(|| (error.kind(), error.reason()))
}

/// Sends one wave together, then alone what was refused in company.
async fn send<'e>(
    producer: &Producer,
    topic: &str,
    wave: &[(usize, &'e Event)],
) -> Vec<(usize, &'e Event, Fate)> {
    let mut fates = Vec::with_capacity(wave.len());
    let mut outgoing = Vec::with_capacity(wave.len());
    for (index, event) in wave {
        match Outgoing::new(event) {
            Some(out) => outgoing.push((*index, out)),
            None => fates.push((*index, *event, oversized(event))),
        }
    }
    let records = outgoing.iter().map(|(_, out)| out.record(topic)).collect();
    let results = producer.send_all(records).await;
    for ((index, out), result) in outgoing.iter().zip(results) {
        let fate = match result {
            Ok(_) => Fate::Acknowledged,
            Err(error) if error.kind() == Kind::Refused => alone(producer, topic, out).await,
            Err(error) => Fate::Failed(error),
        };
        out.span.record("outcome", fate.name());
        fates.push((*index, out.event, fate));
    }
    fates
}

async fn alone(producer: &Producer, topic: &str, out: &Outgoing<'_>) -> Fate {
    let mut tries = 0_i32;
    loop {
        tries = tries.saturating_add(1);
        match producer.send(out.record(topic)).await {
            Ok(_) => return Fate::Acknowledged,
            Err(error) if error.kind() != Kind::Refused => return Fate::Failed(error),
            Err(error) if tries >= ALONE_TRIES_MAX => return Fate::Refused { error: error.reason(), tries },
            Err(_) => {}
        }
    }
}

fn oversized(event: &Event) -> Fate {
    let error =
        format!("the payload has {} bytes, {} are allowed", event.payload_bytes, event::VALUE_BYTES_MAX);
    Fate::Refused { error, tries: 0 }
}

impl Fate {
    fn name(&self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::Refused { .. } => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

/// An event with what its record borrows.
struct Outgoing<'e> {
    event: &'e Event,
    payload: &'e str,
    time: String,
    traceparent: Option<String>,
    span: Span,
}

impl<'e> Outgoing<'e> {
    /// `None` when the payload is too large to be sent.
    fn new(event: &'e Event) -> Option<Self> {
        let payload = event.payload.as_deref()?;
        let span = tracing::info_span!(
            "outbox_relay.publish",
            otel.kind = "producer",
            pay.no = event.aggregate_id,
            event.r#type = event.kind,
            outcome = tracing::field::Empty,
        );
        telemetry::continue_trace(&span, event.traceparent.as_deref());
        let traceparent = telemetry::traceparent(&span).or_else(|| event.traceparent.clone());
        let time = event.created_at.format(&Rfc3339).unwrap_or_default();
        Some(Self { event, payload, time, traceparent, span })
    }

    /// The record, without a time of its own: the broker's retention counts from now, or a backlog older than it would vanish.
    /// When it happened is told by `ce_time`.
    fn record<'a>(&'a self, topic: &'a str) -> Record<'a> {
        let mut headers = vec![
            (header::SPEC_VERSION, b"1.0".as_slice()),
            (header::ID, self.event.msg_key.as_bytes()),
            (header::SOURCE, event::SOURCE.as_bytes()),
            (header::TYPE, self.event.kind.as_bytes()),
            (header::SUBJECT, self.event.aggregate_id.as_bytes()),
            (header::TIME, self.time.as_bytes()),
            (header::CONTENT_TYPE, b"application/json".as_slice()),
        ];
        headers.extend(self.traceparent.as_ref().map(|text| (header::TRACEPARENT, text.as_bytes())));
        Record {
            topic,
            key: Some(self.event.partition_key.as_bytes()),
            value: Some(self.payload.as_bytes()),
            headers,
        }
    }
}
