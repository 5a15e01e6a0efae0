//! Lingering close of an HTTP/2 connection: the peer closes first, if it does so soon.
//!
//! A request may cross the closing of its connection. The peer knows from GOAWAY that the request was not read, and
//! sends it again; but only if the connection stays open until the peer has read that. Go's client otherwise fails the
//! request, and an API server then refuses a deletion that nobody reviewed. Data that nobody reads also makes the
//! operating system reset the connection, and GOAWAY gets lost.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Time that a peer has for closing the connection. Go's servers give a second, too.
const LINGER: Duration = Duration::from_secs(1);
/// Number of bytes that are read at once and dropped.
const DROPPED: usize = 1 << 10;

/// Stream that, before it closes, drops what the peer still sends, until the peer closes or [`LINGER`] is over.
pub(crate) struct LingeringClose<IO> {
    io: IO,
    lingers: bool,
    until: Option<Pin<Box<Sleep>>>,
}

impl<IO: AsyncRead + Unpin> LingeringClose<IO> {
    /// Wraps a stream; without `lingers`, the stream closes as it does by itself.
    pub(crate) fn new(io: IO, lingers: bool) -> Self {
        Self { io, lingers, until: None }
    }

    fn poll_lingering(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let mut dropped = [MaybeUninit::uninit(); DROPPED];
            let mut dropped = ReadBuf::uninit(&mut dropped);
            let read = ready!(Pin::new(&mut self.io).poll_read(cx, &mut dropped));
            if read.is_err() || dropped.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for LingeringClose<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringClose<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingers {
            ready!(this.poll_lingering(cx));
        }
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}
