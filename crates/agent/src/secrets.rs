//! Tokens and keys from files.
//!
//! In: paths. Out: what they hold, or one line that says what to change. Nothing here is printed.

use std::path::Path;
use std::sync::Arc;

use faultless_console::{Failure, reason};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A bearer token.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Reads the file's one line.
    ///
    /// # Errors
    /// It can't be read, or holds no token that a header can carry.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure(format!("{}: {}; name a file with a token", path.display(), reason(&error)))
        })?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure(format!("{}: no token; write one word of ASCII", path.display())));
        }
        Ok(Self(token.to_owned()))
    }

    /// The value of the header `Authorization`.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether a header carries this token. The time does not tell how much of it is right.
    pub(crate) fn is_in(&self, header: &str) -> bool {
        let Some((scheme, given)) = header.split_once(' ') else { return false };
        let (given, token) = (given.trim().as_bytes(), self.0.as_bytes());
        let differs = given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
        scheme.eq_ignore_ascii_case("bearer") && given.len() == token.len() && differs == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// The cryptography of both directions.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// TLS for the side that listens.
///
/// # Errors
/// A file can't be read, holds no certificate or key, or the two don't belong together.
pub(crate) fn server(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain = chain.map_err(|error| unread(cert, &error, "a certificate chain in PEM"))?;
    if chain.is_empty() {
        return Err(unread(cert, &PemError::NoItemsFound, "a certificate chain in PEM"));
    }
    let key =
        PrivateKeyDer::from_pem_file(key).map_err(|error| unread(key, &error, "a private key in PEM"))?;
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    config.map(Arc::new).map_err(|error| {
        Failure(format!("{}: {error}; the key must be that of the first certificate", cert.display()))
    })
}

fn unread(path: &Path, error: &PemError, wanted: &str) -> Failure {
    let why = match error {
        PemError::Io(error) => reason(error),
        PemError::NoItemsFound => "nothing of the kind in it".into(),
        other => other.to_string(),
    };
    Failure(format!("{}: {why}; name a file with {wanted}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token("secret".into());
        assert!(token.is_in("Bearer secret") && token.is_in("bearer  secret "));
        for wrong in ["secret", "Bearer secre", "Bearer secrets", "Bearer ", "Basic secret", ""] {
            assert!(!token.is_in(wrong), "{wrong}");
        }
        assert_eq!((token.header().as_str(), format!("{token:?}").as_str()), ("Bearer secret", "Token"));
    }
}
