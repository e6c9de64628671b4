use test_kit::{Proxy, wait_for};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, timeout};

/// Answers every byte with itself.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    service_kit::task::spawn("echo", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            service_kit::task::spawn("echo.connection", async move {
                let (mut read, mut write) = stream.split();
                drop(tokio::io::copy(&mut read, &mut write).await);
            });
        }
    });
    addr
}

async fn ask(stream: &mut TcpStream) -> Option<u8> {
    stream.write_u8(7).await.ok()?;
    timeout(Duration::from_millis(300), stream.read_u8()).await.ok()?.ok()
}

#[tokio::test]
async fn a_cut_ends_connections_and_refuses_new_ones_until_restored() {
    let proxy = Proxy::start(&echo().await).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(ask(&mut stream).await, Some(7));
    proxy.cut().await;
    wait_for("the connection to end", async || stream.read_u8().await.is_err()).await;
    TcpStream::connect(proxy.addr()).await.unwrap_err();
    proxy.restore().await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(ask(&mut stream).await, Some(7));
}

#[tokio::test]
async fn a_frozen_line_accepts_and_says_nothing_then_goes_on() {
    let proxy = Proxy::start(&echo().await).await;
    proxy.freeze();
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(ask(&mut stream).await, None);
    proxy.restore().await;
    assert_eq!(stream.read_u8().await.unwrap(), 7);
}

#[tokio::test]
async fn a_lost_answer_closes_the_connection_that_asked() {
    let proxy = Proxy::start(&echo().await).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    proxy.drop_after_bytes(1);
    assert_eq!(ask(&mut stream).await, Some(7));
    assert_eq!(ask(&mut stream).await, None);
    proxy.restore().await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(ask(&mut stream).await, Some(7));
}
