//! Stripe: the published cases and vectors, and how every kind of answer ends.

mod call;
mod cases;
mod hostile;
mod refund;
mod settings;
mod support;
