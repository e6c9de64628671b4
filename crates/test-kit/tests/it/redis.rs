use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use test_kit::PrivateRedis;

fn answers(redis: &PrivateRedis) -> bool {
    let address = redis.url().trim_start_matches("redis://").to_owned();
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut answer = [0_u8; 7];
    stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok()
}

#[tokio::test]
async fn a_private_redis_can_be_frozen_killed_and_started_again() {
    let mut redis = PrivateRedis::start().await;
    assert!(answers(&redis));
    redis.stop();
    assert!(!answers(&redis));
    redis.resume();
    assert!(answers(&redis));
    redis.kill();
    assert!(!answers(&redis));
    redis.restart().await;
    assert!(answers(&redis));
}
