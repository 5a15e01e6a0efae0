//! Lines of a response that goes on for long: the events of a watch.

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::http::body_limit::{UpTo, collect};
use crate::http::endpoint::{Endpoint, with_causes};
use crate::http::objects::{ApiError, Status, described};

/// Maximum length of a line, in bytes: etcd accepts objects of 1.5 MiB by default.
pub(crate) const MAX_LINE: usize = 8 << 20;

/// Lines of one response, as they come.
pub(crate) struct Lines {
    body: Incoming,
    line: Buffer,
}

/// Bytes that have arrived and are in no complete line yet.
#[derive(Default)]
struct Buffer {
    bytes: BytesMut,
    /// Number of bytes that hold no end of a line.
    searched: usize,
}

impl Endpoint {
    /// Sends a GET, and returns the lines of its response.
    pub(crate) async fn lines(&self, path_and_query: &str, accept: &'static str) -> Result<Lines, ApiError> {
        let (head, body) = self.open(path_and_query, accept).await?.into_parts();
        if head.status.is_success() {
            return Ok(Lines { body, line: Buffer::default() });
        }
        let body = collect(body, false, &mut UpTo(MAX_LINE)).await.ok().flatten().unwrap_or_default();
        let request = described(&Method::GET, self, path_and_query);
        Err(ApiError::Refused { request, status: Status::read(head.status, &body) })
    }
}

impl Lines {
    /// Returns the next line; `None` at the end of the response. No byte is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(line) = self.line.take() {
                return Ok(Some(line));
            }
            if self.line.bytes.len() > MAX_LINE {
                return Err(format!("the watch has a line of more than {} MiB", MAX_LINE >> 20));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.line.bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(why)) => return Err(with_causes(&why)),
                None => return Ok(None),
            }
        }
    }
}

impl Buffer {
    /// Takes the first line out of the buffer, if it is complete. An empty line is none.
    fn take(&mut self) -> Option<Bytes> {
        loop {
            let unsearched = self.bytes.get(self.searched..)?;
            let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                return None;
            };
            let line = self.bytes.split_to(self.searched.saturating_add(end).saturating_add(1)).freeze();
            // The memory of a long line is not kept for the next one.
            if self.bytes.is_empty() {
                self.bytes = BytesMut::new();
            }
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_at_its_end_however_it_is_cut() {
        let mut buffer = Buffer::default();
        let mut lines = Vec::new();
        for piece in ["{\"a\"", ":1}", "\n\n", "{}\n{", "}", "\n"] {
            buffer.bytes.extend_from_slice(piece.as_bytes());
            lines.extend(std::iter::from_fn(|| buffer.take()));
        }
        assert_eq!(lines, ["{\"a\":1}\n", "{}\n", "{}\n"]);
        assert!(buffer.bytes.is_empty());
    }
}
