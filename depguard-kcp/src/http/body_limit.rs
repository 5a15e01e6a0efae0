//! Reads a body into memory as far as there is space for it.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

/// Minimum by which a buffer grows, in bytes.
const STEP: usize = 64 << 10;

/// Space for a body: a share of a common budget, or a fixed number of bytes.
pub trait BodyBudget: Send {
    /// Returns the number of bytes for which there is space already: about as many as are expected.
    fn size(&self) -> usize;

    /// Makes space for `bytes` in all; returns `false` if there is none.
    fn grow(&mut self, bytes: usize) -> bool;

    /// Returns an empty buffer to read into: a buffer that was used before, if there is one.
    fn buffer(&mut self) -> BytesMut {
        BytesMut::new()
    }
}

/// Space for this many bytes, of which none are expected.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a number of bytes")]
pub struct UpTo(pub usize);

impl BodyBudget for UpTo {
    fn size(&self) -> usize {
        0
    }

    fn grow(&mut self, bytes: usize) -> bool {
        bytes <= self.0
    }
}

/// Reads a body to its end into one buffer, or only to the end of a watch's first event; each byte is copied once. Returns
/// `None` if there is no space for the body.
pub(crate) async fn collect(
    mut body: Incoming,
    is_watch: bool,
    space: &mut impl BodyBudget,
) -> Result<Option<Bytes>, hyper::Error> {
    let told = body.size_hint().exact().map(|told| usize::try_from(told).unwrap_or(usize::MAX));
    if told.is_some_and(|told| !space.grow(told)) {
        return Ok(None);
    }
    let mut whole = space.buffer();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if told == Some(data.len()) {
            // The whole body came in one piece.
            return Ok(Some(data));
        }
        if !make_space(whole.len().saturating_add(data.len()), space) {
            return Ok(None);
        }
        if whole.is_empty() {
            whole.reserve(told.unwrap_or(space.size()));
        }
        whole.extend_from_slice(&data);
        if is_watch && data.contains(&b'\n') {
            break;
        }
    }
    Ok(Some(whole.freeze()))
}

/// Grows the space by a half, or else by exactly the needed bytes.
fn make_space(needed: usize, space: &mut impl BodyBudget) -> bool {
    let half_more = space.size().saturating_add((space.size() / 2).max(STEP)).max(needed);
    needed <= space.size() || space.grow(half_more) || space.grow(needed)
}
