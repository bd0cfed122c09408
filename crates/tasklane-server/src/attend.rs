//! Connections that hold a place for nothing: silent, idle, or with a client that takes nothing of
//! its answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream whose writes make progress or fail: what a client was to get is held in memory until
/// it is taken.
pub(crate) struct Attended<S> {
    stream: S,
    within: Duration,
    /// While a write waits: until when it may.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Attended<S> {
    pub(crate) fn new(stream: S, within: Duration) -> Self {
        Self { stream, within, waiting: None }
    }

    /// Passes on what came of a write, unless it has waited too long.
    fn attend<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let within = self.within;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        ready!(waiting.as_mut().poll(context));
        let why = "the client takes nothing";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Attended<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Attended<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.attend(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.attend(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.attend(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.attend(context, shut)
    }
}

/// Ends when a connection has sent no whole request in its first time: hyper begins to count only
/// once it knows the protocol.
pub(crate) async fn silent(within: Duration, requests: &Requests) {
    tokio::time::sleep(within).await;
    if requests.begun() > 0 {
        std::future::pending::<()>().await;
    }
}

/// Ends when a connection has sent no request for that long, and none is without an answer. hyper
/// does so for HTTP/1 alone. What is still being sent then is sent to its end.
pub(crate) async fn idle(within: Duration, requests: &Requests) {
    let mut before = 0;
    loop {
        tokio::time::sleep(within).await;
        let begun = requests.begun();
        if begun == before && requests.answered() == begun {
            return;
        }
        before = begun;
    }
}

/// The requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    begun: AtomicUsize,
    answered: AtomicUsize,
}

impl Requests {
    pub(crate) fn begin(requests: &Arc<Self>) -> Begun {
        requests.begun.fetch_add(1, Ordering::Relaxed);
        Begun(Arc::clone(requests))
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

/// A request that has no answer yet.
pub(crate) struct Begun(Arc<Requests>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_write_that_makes_no_progress_fails_and_one_that_does_goes_on() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = Attended::new(near, Duration::from_secs(10));
        near.write_all(&[1; 8]).await.unwrap();
        let reading = tokio::spawn(async move {
            let mut byte = [0];
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                far.read_exact(&mut byte).await.unwrap();
            }
            far
        });
        near.write_all(&[2; 20]).await.unwrap();
        let _far = reading.await.unwrap();
        let started = tokio::time::Instant::now();
        let error = near.write_all(&[3; 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 10);
    }
}
