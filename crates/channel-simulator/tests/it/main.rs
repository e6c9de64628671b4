//! The simulator as a channel: driven through the channel port and through its control calls, with a receiver that reads
//! what it sends.

#[cfg(test)]
mod call;
#[cfg(test)]
mod control;
#[cfg(test)]
mod notice;
#[cfg(test)]
mod refund;
#[cfg(test)]
mod world;
