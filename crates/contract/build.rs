//! Compiles `proto/` with protox: no protoc on the machine.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("no manifest dir")?).join("../../proto");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no out dir")?);
    let files = [
        "oncepay/common/v1/money.proto",
        "oncepay/order/v1/order_api.proto",
        "oncepay/core/v1/payment_core.proto",
        "oncepay/ledger/v1/ledger_service.proto",
        "oncepay/event/v1/payment_event.proto",
    ]
    .map(|file| root.join(file));
    println!("cargo:rerun-if-changed={}", root.display());
    let descriptors = protox::compile(files, [&root])?;
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let event = ".oncepay.event.v1.PaymentEvent";
    tonic_prost_build::configure()
        .type_attribute(event, "#[derive(serde::Serialize, serde::Deserialize)]")
        .type_attribute(event, "#[serde(rename_all = \"camelCase\", default)]")
        // The JSON mapping of protobuf writes 64-bit integers as text.
        .field_attribute(format!("{event}.amount"), "#[serde(with = \"crate::event::int64_text\")]")
        .field_attribute(format!("{event}.version"), "#[serde(with = \"crate::event::int64_text\")]")
        .compile_fds(descriptors)?;
    Ok(())
}
