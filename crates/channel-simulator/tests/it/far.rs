//! A simulator of the three real channels, the keys of both sides, and a receiver that keeps what it was told. The clients in
//! these tests are made by hand: they share no code with the adapters, and none with the simulator.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey};
use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use channel_simulator::{App, BookView, Settings, Totals, keys};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde_json::Value;
use service_kit::switch::Switches;
use service_kit::{CancellationToken, Clock};
use test_kit::wait_for;
use tokio::net::TcpListener;

/// What the receiver got.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

type Answer = dyn Fn(usize, &Got) -> (u16, &'static str) + Send + Sync;

pub(crate) struct Far {
    pub(crate) url: String,
    pub(crate) dir: PathBuf,
    pub(crate) http: reqwest::Client,
    pub(crate) got: Arc<Mutex<Vec<Got>>>,
    pub(crate) receiver_url: String,
    stop: CancellationToken,
}

impl Drop for Far {
    fn drop(&mut self) {
        self.stop.cancel();
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// A world whose receiver takes everything, in each channel's own way.
pub(crate) async fn far() -> Far {
    far_that(|_, got| if got.path.contains("alipay") { (200, "success") } else { (200, "") }).await
}

/// A world whose receiver answers as `answer` says: given how many came before, and what came.
pub(crate) async fn far_that(
    answer: impl Fn(usize, &Got) -> (u16, &'static str) + Send + Sync + 'static,
) -> Far {
    far_with("", answer).await
}

/// A world with one line more in the first table of Alipay in `simulator.toml`.
pub(crate) async fn far_with(
    alipay_line: &str,
    answer: impl Fn(usize, &Got) -> (u16, &'static str) + Send + Sync + 'static,
) -> Far {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let receiver_url = format!("http://{}", listener.local_addr().unwrap());
    let port = test_kit::free_port();
    let url = format!("http://127.0.0.1:{port}");
    let dir = copy_of_keys();
    let files = keys::write(&dir, &url, &receiver_url).unwrap();
    let theirs = std::fs::read_to_string(&files.simulator).unwrap();
    let line = format!("[account.alipay]\n{alipay_line}\n");
    std::fs::write(&files.simulator, theirs.replacen("[account.alipay]\n", &line, 1)).unwrap();
    let settings = Settings {
        listen: ([127, 0, 0, 1], port).into(),
        keys_file: Some(files.simulator),
        ..Settings::for_test(files.channels)
    };
    let app = App::build(settings, Clock::system(), Switches::all_on()).await.unwrap();
    let stop = CancellationToken::new();
    service_kit::task::spawn("simulator", app.run(stop.clone()));
    let got = serve_receiver(listener, Arc::new(answer));
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
    Far { url, dir, http, got, receiver_url, stop }
}

/// Keys take time to make, so all tests have the same.
fn copy_of_keys() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let unique =
        |what: &str| std::env::temp_dir().join(format!("oncepay-{what}-{:x}", rand::random::<u64>()));
    let made = MADE.get_or_init(|| {
        let dir = unique("keys");
        keys::write(&dir, "http://127.0.0.1:1", "http://127.0.0.1:2").unwrap();
        dir
    });
    let dir = unique("far");
    std::fs::create_dir(&dir).unwrap();
    for entry in std::fs::read_dir(made).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
    }
    dir
}

fn serve_receiver(listener: TcpListener, answer: Arc<Answer>) -> Arc<Mutex<Vec<Got>>> {
    let got: Arc<Mutex<Vec<Got>>> = Arc::default();
    let kept = Arc::clone(&got);
    let handler = move |request: Request| {
        let (answer, got) = (Arc::clone(&answer), Arc::clone(&kept));
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let one = Got { path: parts.uri.path().to_owned(), headers: parts.headers, body };
            let mut got = got.lock().unwrap();
            let (status, text) = answer(got.len(), &one);
            got.push(one);
            (StatusCode::from_u16(status).unwrap(), text).into_response()
        }
    };
    let router = Router::new().fallback(handler);
    service_kit::task::spawn("receiver", async move { axum::serve(listener, router).await });
    got
}

impl Far {
    /// One of the key files.
    pub(crate) fn key(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap()
    }

    pub(crate) async fn plan(&self, plan: Value) {
        let response =
            self.http.put(format!("{}/control/plan", self.url)).body(plan.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
    }

    /// A control call that must succeed.
    pub(crate) async fn control(&self, path: &str, body: Value) -> Value {
        let request = self.http.post(format!("{}/control/{path}", self.url)).body(body.to_string());
        let response = request.send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn pay(&self, name: &str) -> Value {
        self.control(&format!("orders/{name}/pay"), serde_json::json!({})).await
    }

    pub(crate) async fn book(&self) -> BookView {
        let response = self.http.get(format!("{}/control/book", self.url)).send().await.unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    /// The totals once nothing waits any more.
    pub(crate) async fn quiet(&self) -> Totals {
        wait_for("the simulator has nothing left to send", async || {
            Some(self.book().await.totals).filter(|totals| totals.pending == 0)
        })
        .await
    }

    /// What came so far, once nothing is on its way.
    pub(crate) async fn told(&self) -> Vec<Got> {
        self.quiet().await;
        self.got.lock().unwrap().clone()
    }

    pub(crate) fn forget(&self) {
        self.got.lock().unwrap().clear();
    }
}

pub(crate) fn rsa_sign(private_pem: &str, text: &[u8]) -> String {
    let der = PrivatePkcs8KeyDer::from_pem_slice(private_pem.as_bytes()).unwrap();
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).unwrap();
    STANDARD.encode(signature)
}

pub(crate) fn rsa_verifies(public_pem: &str, text: &[u8], signature: &str) -> bool {
    let Ok(signature) = STANDARD.decode(signature) else { return false };
    let der = SubjectPublicKeyInfoDer::from_pem_slice(public_pem.as_bytes()).unwrap();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der.as_ref()).verify(text, &signature).is_ok()
}
