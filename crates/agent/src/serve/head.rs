//! The head of an HTTP request.

use std::io::{self, Read};

use crate::tuning as t;

/// What matters of it. Bodies are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) accept: String,
    pub(super) authorization: String,
}

/// Most lines of a head.
const HEADERS_MAX: usize = 64;

impl Head {
    /// Reads one; `None` if it is too long or no HTTP.
    ///
    /// # Errors
    /// The connection fails, or ends before the head does.
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        loop {
            let mut piece = [0; 1024];
            let len = stream.read(&mut piece)?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&piece[..len]);
            match Self::parse(&bytes) {
                Ok(None) if bytes.len() <= t::HEAD_BYTES_MAX => {}
                Ok(head) => return Ok(head),
                Err(_) => return Ok(None),
            }
        }
    }

    /// `None` while it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        if request.parse(bytes)?.is_partial() {
            return Ok(None);
        }
        let header = |name: &str| {
            let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| String::from_utf8_lossy(header.value).into_owned()).unwrap_or_default()
        };
        Ok(Some(Self {
            accept: header("accept"),
            authorization: header("authorization"),
            method: request.method.unwrap_or_default().to_owned(),
            target: request.path.unwrap_or_default().to_owned(),
        }))
    }

    /// The target without its query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(1);
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    #[test]
    fn a_head_may_come_in_pieces() {
        let text =
            b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\naccept: text/plain\r\nAuthorization: Bearer y\r\n\r\n";
        let head = Head::read(&mut Slow(text)).unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.path()), ("GET", "/metrics"));
        assert_eq!((head.accept.as_str(), head.authorization.as_str()), ("text/plain", "Bearer y"));
    }

    #[test]
    fn what_is_too_long_or_no_http_is_no_head_and_an_end_is_an_error() {
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(t::HEAD_BYTES_MAX));
        assert_eq!(Head::read(&mut Slow(long.as_bytes())).unwrap(), None);
        assert_eq!(Head::read(&mut &b"\x16\x03\x01\x02\x00\x01"[..]).unwrap(), None, "TLS without TLS");
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(Head::read(&mut many.as_bytes()).unwrap(), None);
        assert!(Head::read(&mut &b"GET / HTT"[..]).is_err());
    }
}
