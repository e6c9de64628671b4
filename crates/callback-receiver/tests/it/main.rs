//! The receiver between HTTP and gRPC. The core here is a few lines that answer as they are told: what is tested is what the
//! edge passes on, what it refuses and what it answers. The whole way is tested in `e2e`.

#[cfg(test)]
mod answer;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod refuse;
#[cfg(test)]
mod size;
#[cfg(test)]
mod world;
