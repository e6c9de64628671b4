//! The simulator as a channel: the generic one driven through the channel port, the others by clients made by hand, all of
//! them through control calls, with receivers that read what it sends.

#[cfg(test)]
mod alipay;
#[cfg(test)]
mod call;
#[cfg(test)]
mod control;
#[cfg(test)]
mod far;
#[cfg(test)]
mod notice;
#[cfg(test)]
mod refund;
#[cfg(test)]
mod stripe;
#[cfg(test)]
mod wechatpay;
#[cfg(test)]
mod world;
