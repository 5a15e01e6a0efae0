//! Lower bound: a list that is read page by page and thrown away.

use depguard_kcp::Endpoint;

use crate::Result;

/// Objects a page, as in depguard's first request.
const MAX_PER_PAGE: usize = 500;

/// Totals of the pages that were read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Drained {
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
}

/// Reads a whole collection. Nothing is parsed: the continue token is searched as bytes.
pub(crate) async fn drain(endpoint: &Endpoint, collection: &str) -> Result<Drained> {
    let (mut drained, mut token) = (Drained::default(), None);
    loop {
        let response = endpoint.get(&page_path(collection, token.as_deref())).await?;
        if !response.status().is_success() {
            return Err(format!("GET {collection}: {}", response.status()).into());
        }
        drained.pages += 1;
        drained.bytes += response.body().len() as u64;
        token = continue_token(response.body());
        if token.is_none() {
            return Ok(drained);
        }
    }
}

/// Returns the path of a page.
pub(crate) fn page_path(collection: &str, token: Option<&str>) -> String {
    // Servers make tokens of `=` and of letters that need no encoding.
    let token = token.map(|token| format!("&continue={}", token.replace('=', "%3D"))).unwrap_or_default();
    format!("{collection}?limit={MAX_PER_PAGE}{token}")
}

/// Returns the continue token of a list. As in every list of custom resources, the list's metadata lies behind its
/// items.
pub(crate) fn continue_token(body: &[u8]) -> Option<String> {
    const MEMBER: &[u8] = b"\"continue\":\"";
    let tail = &body[body.len().saturating_sub(4 << 10)..];
    let start = tail.windows(MEMBER.len()).rposition(|window| window == MEMBER)? + MEMBER.len();
    let length = tail[start..].iter().position(|byte| *byte == b'"')?;
    let token = std::str::from_utf8(&tail[start..start + length]).ok()?;
    (!token.is_empty()).then(|| token.to_owned())
}
