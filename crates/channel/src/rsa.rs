//! RSA signatures, PKCS#1 v1.5 with SHA-256, and the forms in which channels hand out their keys. No other algorithm can be
//! chosen here, so that no message can ask for one.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// The text is no RSA key of at least 2048 bits in a form that we read. It holds nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no RSA key of at least 2048 bits, as PEM or base64")]
pub struct Error;

/// A key that signs. It never prints.
pub struct PrivateKey(RsaKeyPair);

/// A key that verifies.
#[derive(Debug, Clone)]
pub struct PublicKey(ParsedPublicKey);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

impl PrivateKey {
    /// Reads PKCS#8 or PKCS#1, as PEM or as base64 alone.
    ///
    /// # Errors
    /// [`Error`]
    pub fn parse(text: &str) -> Result<Self, Error> {
        let der = Zeroizing::new(der(text)?);
        RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)).map(Self).map_err(|_| Error)
    }

    /// The signature of `message`.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
            .expect("a key that was read signs into a buffer of its own length");
        signature
    }
}

impl PublicKey {
    /// Reads a public key (SPKI or PKCS#1), as PEM or as base64 alone.
    ///
    /// # Errors
    /// [`Error`]
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::from_der(&der(text)?)
    }

    /// Reads a public key (SPKI or PKCS#1).
    ///
    /// # Errors
    /// [`Error`]
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der).map(Self).map_err(|_| Error)
    }

    /// Whether `signature` is that of `message`.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify_sig(message, signature).is_ok()
    }
}

/// The bytes between the lines of PEM, or of base64 alone.
fn der(text: &str) -> Result<Vec<u8>, Error> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
    let text: Zeroizing<String> = Zeroizing::new(lines.collect());
    STANDARD.decode(text.as_bytes()).map_err(|_| Error)
}
