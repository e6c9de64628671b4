//! The port to channels, tested over the wire: what the published vectors fix, what a changed byte does, and how every kind
//! of answer ends.

#[cfg(test)]
mod alipay;
#[cfg(test)]
mod call;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod stripe;
#[cfg(test)]
mod support;
#[cfg(test)]
mod vector;
#[cfg(test)]
mod wechatpay;
