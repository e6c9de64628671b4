//! WeChat Pay: the published cases and vectors, keys that change, and how every kind of answer ends.

mod call;
mod cases;
mod hostile;
mod keys;
mod settings;
mod support;
