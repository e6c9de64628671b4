//! Properties of the broker's clients, against a real Apache Kafka.
#![cfg(test)]

mod consumer;
mod embedded;
mod producer;
mod topics;
