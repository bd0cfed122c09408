//! Connections to a server.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

use super::error::Error;
#[cfg(feature = "tls")]
use super::tls::{Secured, Tls};

/// Makes connections for the pool.
#[derive(Clone)]
pub(super) struct Connector {
    plain: HttpConnector,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

/// A connection.
pub(super) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Secured(Box<Secured>),
}

type Trouble = Box<dyn std::error::Error + Send + Sync>;

impl Connector {
    pub(super) fn new(
        base: &Uri,
        authorities: Option<&Path>,
        within: Duration,
    ) -> Result<Self, Error> {
        let secure = base.scheme_str() == Some("https");
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(within));
        plain.enforce_http(false);
        #[cfg(not(feature = "tls"))]
        if secure || authorities.is_some() {
            return Err(Error::Usage("this program is built without https".into()));
        }
        Ok(Self {
            plain,
            #[cfg(feature = "tls")]
            tls: secure.then(|| Tls::new(authorities, within)).transpose()?,
        })
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Trouble;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Trouble>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Trouble>> {
        self.plain.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        #[cfg(feature = "tls")]
        let secured = self.tls.clone().zip(target.host().map(ToOwned::to_owned));
        let connecting = self.plain.call(target);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            #[cfg(feature = "tls")]
            if let Some((tls, host)) = secured {
                let secured = tls.connect(&host, stream).await?;
                return Ok(TokioIo::new(Stream::Secured(Box::new(secured))));
            }
            Ok(TokioIo::new(Stream::Plain(stream)))
        })
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Stream {
    fn either(self: Pin<&mut Self>) -> Pin<&mut dyn Both> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream),
            #[cfg(feature = "tls")]
            Self::Secured(stream) => Pin::new(stream.as_mut()),
        }
    }
}

/// Both directions.
trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.either().poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.either().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.either().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.either().poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.either().poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Secured(stream) => stream.is_write_vectored(),
        }
    }
}
