//! Alipay: the published cases, calls against a far side that signs as the channel does, and hostile bodies.

mod call;
mod cases;
mod support;
