//! Properties of the relay, on real PostgreSQL and real Kafka.
#![cfg(test)]

mod app;
mod backlog;
mod failure;
mod ownership;
mod parked;
mod process;
mod publish;
mod stage;
