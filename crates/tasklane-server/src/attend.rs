//! Connections that hold a place for nothing: silent, idle, or with a client that does not come to the
//! end of its headers or takes nothing of its answer.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How a connection begins that speaks HTTP/2.
const HTTP_2: &[u8] = b"PRI";

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// From the first byte of a request to the end of its headers, and from one request to the next.
    pub(crate) headers_within: Duration,
    /// To take some of its answer.
    pub(crate) stall_after: Duration,
}

/// A stream whose writes make progress or fail: what a client was to get is held in memory until
/// it is taken. Likewise headers come to their end in time, or reading fails. Of HTTP/1 alone: what
/// HTTP/2 and WebSockets send is not seen as requests here. The beginning of a request that comes while
/// another is without an answer is taken for the body of that one: if it has no end, `idle` ends it.
pub(crate) struct Attended<S: AsyncWrite + Unpin> {
    stream: S,
    times: Times,
    requests: Arc<Requests>,
    /// The first bytes that came.
    beginning: Vec<u8>,
    /// While headers come piece by piece: until when they may. Most come at once, without a timer.
    coming: Option<Pin<Box<Sleep>>>,
    /// While a write waits: until when it may.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Attended<S> {
    pub(crate) fn new(stream: S, times: Times, requests: Arc<Requests>) -> Self {
        Self { stream, times, requests, beginning: Vec::new(), coming: None, waiting: None }
    }

    fn received(&mut self, bytes: &[u8]) {
        let more = HTTP_2.len() - self.beginning.len();
        self.beginning.extend(bytes.iter().take(more));
        if !bytes.is_empty() && !HTTP_2.starts_with(&self.beginning) {
            self.requests.is_partial.store(true, Ordering::Relaxed);
        }
    }

    /// There is nothing more to read yet. Fails if the headers of a request have begun and have taken
    /// too long.
    fn attend_headers(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.requests.waits_for_headers() {
            return Poll::Pending;
        }
        let within = self.times.headers_within;
        let coming = self.coming.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        ready!(coming.as_mut().poll(context));
        self.requests.is_late.store(true, Ordering::Relaxed);
        let why = "the headers came too slowly";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
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
        let within = self.times.stall_after;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        ready!(waiting.as_mut().poll(context));
        let why = "the client takes nothing";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

/// hyper keeps the stream to itself: what is said last is said when it lets go.
impl<S: AsyncWrite + Unpin> Drop for Attended<S> {
    fn drop(&mut self) {
        let Some(last) = self.requests.last.get() else { return };
        // What does not find room at once is not worth a wait.
        let mut context = Context::from_waker(Waker::noop());
        let mut stream = Pin::new(&mut self.stream);
        if stream.as_mut().poll_write(&mut context, last).is_ready() {
            let _ = stream.as_mut().poll_flush(&mut context);
            let _ = stream.poll_shutdown(&mut context);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Attended<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.coming.is_some() && !self.requests.waits_for_headers() {
            // They came to their end.
            self.coming = None;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.received(buffer.filled().get(before..).unwrap_or_default());
        match read {
            Poll::Pending => self.attend_headers(context),
            read => read,
        }
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

/// Ends when a connection has sent no request for that long, at most twice that long, and none is without
/// an answer or on its way: headers have a time of their own. What is still being sent then is sent to
/// its end.
pub(crate) async fn idle(within: Duration, requests: &Requests) {
    let mut before = 0;
    loop {
        tokio::time::sleep(within).await;
        let begun = requests.begun();
        if begun == before && requests.answered() == begun && !requests.waits_for_headers() {
            return;
        }
        before = begun;
    }
}

/// Ends when a connection, from which nothing more is wanted, has in that time not come to the end of the
/// headers that it began, or has asked nothing at all.
pub(crate) async fn incomplete(within: Duration, requests: &Requests) {
    tokio::time::sleep(within).await;
    if requests.begun() > 0 && !requests.waits_for_headers() {
        std::future::pending::<()>().await;
    }
}

/// The requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    begun: AtomicUsize,
    answered: AtomicUsize,
    /// Of HTTP/1 alone: something came that is no whole request yet.
    is_partial: AtomicBool,
    /// It did not become one in time.
    is_late: AtomicBool,
    /// No requests come any more: another protocol is spoken.
    is_upgraded: AtomicBool,
    /// What is said before the connection is let go.
    last: OnceLock<Vec<u8>>,
}

impl Requests {
    pub(crate) fn begin(requests: &Arc<Self>) -> Begun {
        requests.begun.fetch_add(1, Ordering::Relaxed);
        requests.is_partial.store(false, Ordering::Relaxed);
        Begun(Arc::clone(requests))
    }

    /// Has a client whose request did not come to its end told so, once its connection is let go.
    pub(crate) fn end_partial(&self, with: impl FnOnce() -> Vec<u8>) {
        if self.is_partial.load(Ordering::Relaxed) {
            let _ = self.last.set(with());
        }
    }

    /// Whether headers took too long.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    /// Whether a request has begun whose headers have not ended. What comes while another has no answer
    /// may be its body, which is attended where it is read.
    fn waits_for_headers(&self) -> bool {
        let has_begun = self.is_partial.load(Ordering::Relaxed) && self.begun() == self.answered();
        has_begun && !self.is_upgraded.load(Ordering::Relaxed)
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

impl Begun {
    /// It was the last: the connection goes on with another protocol.
    pub(crate) fn upgrade(&self) {
        self.0.is_upgraded.store(true, Ordering::Relaxed);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
        // What came meanwhile was its body.
        self.0.is_partial.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn times(seconds: u64) -> Times {
        let time = Duration::from_secs(seconds);
        Times { headers_within: time, stall_after: time }
    }

    #[tokio::test(start_paused = true)]
    async fn headers_have_their_time_from_their_first_byte_and_bodies_have_not() {
        let (near, mut far) = tokio::io::duplex(64);
        let requests = Arc::new(Requests::default());
        let mut near = Attended::new(near, times(10), Arc::clone(&requests));
        let mut byte = [0];
        let patience = Duration::from_secs(100);
        let nothing = tokio::time::timeout(patience, near.read(&mut byte)).await;
        assert!(nothing.is_err(), "nothing has begun");
        far.write_all(b"G").await.unwrap();
        near.read_exact(&mut byte).await.unwrap();
        let begun = Requests::begin(&requests);
        far.write_all(b"{").await.unwrap();
        near.read_exact(&mut byte).await.unwrap();
        let body = tokio::time::timeout(patience, near.read(&mut byte)).await;
        assert!(body.is_err(), "what comes is a body");
        drop(begun);
        let idles = tokio::spawn({
            let requests = Arc::clone(&requests);
            async move { idle(Duration::from_secs(3), &requests).await }
        });
        far.write_all(b"G").await.unwrap();
        near.read_exact(&mut byte).await.unwrap();
        let started = tokio::time::Instant::now();
        let dripping = tokio::spawn(async move {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_secs(3)).await;
                let _ = far.write_all(b"E").await;
            }
        });
        let mut all = Vec::new();
        let error = near.read_to_end(&mut all).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!((started.elapsed().as_secs(), requests.is_late()), (10, true));
        assert!(!idles.is_finished(), "it was not idle");
        dripping.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_once_another_protocol_is_spoken_has_all_its_time() {
        let (near, mut far) = tokio::io::duplex(64);
        let requests = Arc::new(Requests::default());
        let mut near = Attended::new(near, times(10), Arc::clone(&requests));
        Requests::begin(&requests).upgrade();
        far.write_all(b"G").await.unwrap();
        let mut byte = [0];
        near.read_exact(&mut byte).await.unwrap();
        let waits = tokio::time::timeout(Duration::from_secs(100), near.read(&mut byte)).await;
        assert!(waits.is_err(), "nothing fails");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_makes_no_progress_fails_and_one_that_does_goes_on() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = Attended::new(near, times(10), Arc::default());
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
