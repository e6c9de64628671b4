//! `docs/API.md`: reasons from `contract::reason`, calls and events from `proto/`.

use std::fmt::Write as _;

use contract::reason::{DOMAIN, Reason};

use crate::proto;
use crate::tree::Tree;

const HEAD: &str = "# API

Made by `cargo xtask docs` from `crates/contract/src/reason.rs` and `proto/`; a change here is overwritten.
Every field's rule and unit is a comment beside it in `proto/`; servers also answer gRPC reflection.
";

/// The text of the document.
pub(crate) fn text(tree: &Tree) -> String {
    let mut text = HEAD.to_owned();
    reasons(&mut text);
    let mut proto = proto::read(tree);
    // The entrance first; the others are for our own services and for finance.
    proto.services.sort_by_key(|service| service.name != "OrderApi");
    for service in &proto.services {
        calls(&mut text, service);
    }
    if let Some(event) = proto.messages.iter().find(|message| message.name == "PaymentEvent") {
        events(&mut text, event);
    }
    text
}

fn reasons(text: &mut String) {
    put(
        text,
        &format!(
            "
## Errors

An error is a `google.rpc.Status` with an `ErrorInfo` of domain `{DOMAIN}`. `ErrorInfo.reason` is stable; the message is for
people and may change. `BadRequest` names the fields at fault, `RetryInfo` says how long to wait.
`ErrorInfo.metadata[\"retryable\"]` is the advice to the caller:

| advice | what to do |
|---|---|
| `same_key` | send the same request again, unchanged, with the same idempotency key |
| `new_key` | mend the request, and send it with a new key |
| `never` | sending again cannot help |

| reason | gRPC code | retryable | meaning |
|---|---|---|---|
"
        ),
    );
    for reason in Reason::ALL {
        let (name, code, advice) = (reason.as_str(), code_name(*reason), reason.retryable().as_str());
        let meaning = cell(reason.meaning());
        put(text, &format!("| [`{name}`](runbooks/{name}.md) | `{code}` | `{advice}` | {meaning} |\n"));
    }
}

fn calls(text: &mut String, service: &proto::Service) {
    let (name, file, about) = (service.full_name(), &service.file, cell(&service.about));
    put(text, &format!("\n## {}\n\n`{name}`, in `{file}`. {about}\n\n", service.name));
    text.push_str("| call | takes | gives | what it does |\n|---|---|---|---|\n");
    for call in &service.calls {
        let about = cell(&call.about);
        put(text, &format!("| `{}` | `{}` | `{}` | {about} |\n", call.name, call.request, call.response));
    }
}

fn events(text: &mut String, event: &proto::Message) {
    let topic = contract::event::TOPIC;
    put(
        text,
        &format!(
            "
## Events

Topic `{topic}`, {} partitions unless set otherwise, record key `merchant_id:order_no`. CloudEvents 1.0 in binary mode: the
attributes are record headers, the value is `PaymentEvent` in its JSON mapping (names in camelCase, 64-bit integers as text).
A fact that is sent again has the same `{}`. What could not be posted goes to `{topic}{}`.

| field | type | meaning |
|---|---|---|
",
            contract::event::PARTITIONS,
            contract::event::header::ID,
            contract::event::DLQ_SUFFIX,
        ),
    );
    for field in &event.fields {
        put(text, &format!("| `{}` | `{}` | {} |\n", field.name, field.kind, cell(&field.about)));
    }
}

/// The name that the gRPC specification gives a code: `FailedPrecondition` is `FAILED_PRECONDITION`.
fn code_name(reason: Reason) -> String {
    let mut name = String::new();
    for letter in format!("{:?}", reason.code()).chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// One cell of a table: no line break, no bar.
fn cell(text: &str) -> String {
    text.trim().replace('\n', " ").replace('|', "\\|")
}

fn put(text: &mut String, more: &str) {
    text.write_str(more).expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_row_with_its_code_and_advice() {
        let text = text(&Tree::default());
        assert!(text.contains(
            "| [`ORDER_ALREADY_PAID`](runbooks/ORDER_ALREADY_PAID.md) | `FAILED_PRECONDITION` | `never` |"
        ));
        assert_eq!(text.matches("](runbooks/").count(), Reason::ALL.len());
    }

    #[test]
    fn calls_are_listed_by_service() {
        let text = text(&Tree::of(&[(
            "proto/a.proto",
            "package a.v1;\n// A door.\nservice Door {\n// Opens | shuts.\nrpc Open(In) returns (Out);\n}",
        )]));
        assert!(text.contains("## Door\n\n`a.v1.Door`, in `proto/a.proto`. A door."));
        assert!(text.contains("| `Open` | `In` | `Out` | Opens \\| shuts. |"));
    }
}
