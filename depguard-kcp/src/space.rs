//! Taking in a body as far as there is space for it.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

/// The least that a buffer grows by, in bytes.
const STEP: usize = 64 << 10;

/// How much of a body may be held: a part of what many share, or a fixed number of bytes.
pub trait Space: Send {
    /// How many bytes there is space for already: about as many as are expected.
    fn size(&self) -> usize;

    /// Makes space for `bytes` in all; `false` where there is none.
    fn grow(&mut self, bytes: usize) -> bool;

    /// An empty buffer to read into: one that was used before, where there is one.
    fn buffer(&mut self) -> BytesMut {
        BytesMut::new()
    }
}

/// So many bytes, of which none are expected.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a number of bytes")]
pub struct UpTo(pub usize);

impl Space for UpTo {
    fn size(&self) -> usize {
        0
    }

    fn grow(&mut self, bytes: usize) -> bool {
        bytes <= self.0
    }
}

/// Reads a body to its end into one buffer, each byte copied once. `None`: there is no space for it.
pub(crate) async fn collect(mut body: Incoming, space: &mut impl Space) -> Result<Option<Bytes>, hyper::Error> {
    let told = body.size_hint().exact().map(|told| usize::try_from(told).unwrap_or(usize::MAX));
    if told.is_some_and(|told| !space.grow(told)) {
        return Ok(None);
    }
    let mut whole = space.buffer();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if told == Some(data.len()) {
            // All of it in one piece, as it came.
            return Ok(Some(data));
        }
        if !make_space(whole.len().saturating_add(data.len()), space) {
            return Ok(None);
        }
        if whole.is_empty() {
            whole.reserve(told.unwrap_or(space.size()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(Some(whole.freeze()))
}

/// Lets the space grow by a half, or else by just what is needed.
fn make_space(needed: usize, space: &mut impl Space) -> bool {
    let half_more = space.size().saturating_add((space.size() / 2).max(STEP)).max(needed);
    needed <= space.size() || space.grow(half_more) || space.grow(needed)
}
