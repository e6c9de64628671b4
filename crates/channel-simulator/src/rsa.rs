//! RSA PKCS#1 v1.5 with SHA-256, as Alipay and WeChat Pay sign. What is signed is each protocol's own business.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

/// A private key of the channel's side. It is never printed.
pub(crate) struct PrivateKey(RsaKeyPair);

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

impl PrivateKey {
    /// Reads a PKCS#8 key in PEM, as [`crate::keys`] writes it.
    pub(crate) fn from_pem(pem: &str) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
        RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok().map(Self)
    }

    /// The signature in base64.
    pub(crate) fn sign(&self, text: &[u8]) -> String {
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature)
            .expect("an RSA key of 2048 bits signs every text");
        STANDARD.encode(signature)
    }
}

/// A public key of our side.
#[derive(Debug)]
pub(crate) struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Reads a `SubjectPublicKeyInfo` in PEM.
    pub(crate) fn from_pem(pem: &str) -> Option<Self> {
        SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).ok().map(|der| Self(der.as_ref().to_vec()))
    }

    /// Whether the signature in base64 is that of the text.
    pub(crate) fn verifies(&self, text: &[u8], signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.0).verify(text, &signature).is_ok()
    }
}
