//! Bounds of the body.

use callback_receiver::BODY_BYTES_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{BODY, Draft, PATH, World, world};

/// Sends raw bytes and reads until the other side closes.
async fn exchange(world: &World, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// The largest body passes whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_the_limit_passes() {
    let world = world().await;
    let draft =
        Draft { body: format!("{}{BODY}", " ".repeat(BODY_BYTES_MAX - BODY.len())), ..Draft::default() };
    assert_eq!(world.send(&draft).await.0, 204);
    assert_eq!(world.results()[0].raw.len(), BODY_BYTES_MAX);
}

/// Not a byte of it is waited for: the head alone is answered. Fails when the length is looked at after reading.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_it_is_too_large_is_not_begun() {
    let world = world().await;
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n", BODY_BYTES_MAX + 1);
    let answer = exchange(&world, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("BODY_TOO_LARGE"), "{answer}");
    assert!(world.refused().is_empty() && world.results().is_empty());
}

/// A body of unsaid length is cut where it passes the limit, although it goes on. Fails without the count in `collect`.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_turns_out_too_large_is_not_finished() {
    let world = world().await;
    let mut request =
        format!("POST {PATH} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes();
    request.extend_from_slice(format!("{:x}\r\n", BODY_BYTES_MAX + 1).as_bytes());
    request.extend_from_slice(&vec![b' '; BODY_BYTES_MAX + 1]);
    let answer = exchange(&world, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

/// A connection that ends within the body leaves no trace in the core.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_body_is_nothing() {
    let world = world().await;
    let mut stream = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n{{\"notify");
    stream.write_all(head.as_bytes()).await.unwrap();
    drop(stream);
    assert_eq!(world.send_good().await.0, 204);
    assert_eq!(world.results().len(), 1);
    assert!(world.refused().is_empty());
}
