//! One push over HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use faultless_console::{Failure, reason};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::Batch;
use crate::args::Options;
use crate::secrets::{self, Token};
use crate::tuning as t;

/// Where to send, and how.
pub(super) struct Client {
    agent: Agent,
    pub(super) url: String,
    token: Option<Token>,
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Taken,
    /// The receiver will never take it.
    Refused(String),
    /// Another time, after this pause if it says so.
    Failed {
        why: String,
        after: Option<Duration>,
    },
}

/// Where distributions keep the certificates that they trust.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl Client {
    /// For this receiver.
    ///
    /// # Errors
    /// A token or certificates can't be read.
    pub(super) fn new(url: &str, options: &Options) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/').to_owned();
        let token = options.push_token_file.as_deref().map(Token::read).transpose()?;
        if token.is_some() && url.starts_with("http://") && !is_here(&url) {
            eprintln!(
                "faultless: {url}: the token of --push-token-file is sent unencrypted; name an https address"
            );
        }
        let mut config = Agent::config_builder()
            .timeout_global(Some(t::PUSH_MAX))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("faultless-agent/", env!("CARGO_PKG_VERSION")));
        if url.starts_with("https") {
            let roots = RootCerts::Specific(Arc::new(roots(options.ca_file.as_deref())?));
            let tls = TlsConfig::builder().root_certs(roots);
            config = config.tls_config(tls.unversioned_rustls_crypto_provider(secrets::provider()).build());
        }
        Ok(Self { agent: Agent::new_with_config(config.build()), url, token })
    }

    /// Sends a batch.
    pub(super) fn send(&self, batch: &Batch) -> Sent {
        // A user may give the whole URL of OTLP.
        let url = self.url.strip_suffix(&batch.target).unwrap_or(&self.url);
        let mut request =
            self.agent.post(format!("{url}{}", batch.target)).header("Content-Type", batch.kind);
        if batch.is_gzip {
            request = request.header("Content-Encoding", "gzip");
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", token.header());
        }
        match request.send(&batch.bytes) {
            Ok(response) => {
                let after = response.headers().get("retry-after");
                judged(response.status().as_u16(), after.and_then(|after| after.to_str().ok()))
            }
            Err(ureq::Error::Io(error)) => Sent::Failed { why: reason(&error), after: None },
            Err(error) => Sent::Failed { why: error.to_string(), after: None },
        }
    }
}

/// Whether a URL leads to this machine.
fn is_here(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    ["localhost", "127.", "[::1]"].iter().any(|here| host.starts_with(here))
}

/// What a status means, by the specification of OTLP.
fn judged(status: u16, retry_after: Option<&str>) -> Sent {
    match status {
        200..300 => Sent::Taken,
        429 | 502 | 503 | 504 => {
            let after = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            Sent::Failed { why: format!("status {status}"), after }
        }
        _ => Sent::Refused(format!("status {status}")),
    }
}

/// The certificates in a file, or those of the system.
fn roots(file: Option<&Path>) -> Result<Vec<Certificate<'static>>, Failure> {
    let system = || SYSTEM_CERTIFICATES.iter().map(PathBuf::from).find(|path| path.exists());
    let Some(path) = file.map(Path::to_owned).or_else(system) else {
        return Err(Failure("no certificates of the system; name some with --ca-file".into()));
    };
    let failure = |why: &str| Failure(format!("{}: {why}; name a file with certificates", path.display()));
    let text = std::fs::read(&path).map_err(|error| failure(&reason(&error)))?;
    let certificates = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() { Err(failure("no certificate in it")) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_names() {
        assert!(
            ["http://localhost:4318", "http://127.0.0.1:9/x", "http://[::1]:80"].into_iter().all(is_here)
        );
        assert!(!["http://collector:4318", "http://10.0.0.1/127.0.0.1"].into_iter().any(is_here));
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert_eq!(judged(200, None), Sent::Taken);
        let after = Some(Duration::from_secs(7));
        assert_eq!(judged(503, Some("7")), Sent::Failed { why: "status 503".into(), after });
        let date = judged(429, Some("Fri, 31 Dec 1999 23:59:59 GMT"));
        assert_eq!(date, Sent::Failed { why: "status 429".into(), after: None });
        for status in [301, 400, 401, 404, 500] {
            assert_eq!(judged(status, None), Sent::Refused(format!("status {status}")));
        }
    }
}
