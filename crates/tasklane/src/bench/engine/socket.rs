//! A socket to the server: plain, or with TLS around it.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Where requests go.
#[derive(Clone)]
pub(crate) struct Route {
    /// As it was given.
    pub(crate) server: String,
    pub(crate) address: SocketAddr,
    /// What TLS is spoken with, and the name that the server must have.
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Reads and writes without waiting, once it is open.
pub(crate) enum Socket {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Socket {
    pub(crate) fn open(route: &Route) -> io::Result<Self> {
        let mut stream = std::net::TcpStream::connect_timeout(&route.address, CONNECT_WITHIN)?;
        stream.set_nodelay(true)?;
        let secured = match &route.tls {
            None => None,
            Some((config, name)) => {
                stream.set_read_timeout(Some(CONNECT_WITHIN))?;
                let made = ClientConnection::new(Arc::clone(config), name.clone());
                let mut session = made.map_err(io::Error::other)?;
                session.complete_io(&mut stream)?;
                Some(session)
            }
        };
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream);
        Ok(match secured {
            None => Self::Plain(stream),
            Some(session) => Self::Secured(Box::new(StreamOwned::new(session, stream))),
        })
    }

    /// What the system tells events of.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Secured(secured) => &mut secured.sock,
        }
    }

    /// Whether bytes may wait in it that the system knows nothing of.
    pub(crate) const fn has_buffers(&self) -> bool {
        matches!(self, Self::Secured(_))
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Secured(secured) => secured.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Secured(secured) => secured.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Secured(secured) => secured.flush(),
        }
    }
}
