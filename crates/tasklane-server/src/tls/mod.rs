//! TLS: a certificate and its key from files, read anew when they change.
//!
//! - [`files`] reads them and says what is wrong with them
//! - [`certificate`] what a certificate says: names and dates
//!
//! A new certificate that cannot be used is refused with a line in the log; connections go on with
//! the one before it.

mod certificate;
mod files;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

pub(crate) use certificate::Certificate;
pub use files::{ClientFiles, TlsError, TlsFiles};

/// How TLS is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Where certificate and key are.
    pub files: TlsFiles,
    /// How often to look whether they have changed.
    pub look_every: Duration,
    /// How long a handshake may take.
    pub handshake_within: Duration,
    /// Handshakes at once; others wait for their turn, within the same time.
    pub handshakes_max: usize,
}

impl TlsSettings {
    /// TLS by these files.
    pub fn new(files: TlsFiles) -> Self {
        Self {
            files,
            look_every: Duration::from_secs(5),
            handshake_within: Duration::from_secs(10),
            handshakes_max: 1_000,
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("it took too long")]
    TooSlow,
    #[error(transparent)]
    Failed(#[from] std::io::Error),
}

/// TLS with the certificate that is good at the moment.
pub struct Tls {
    settings: TlsSettings,
    current: RwLock<Current>,
    /// Stands for what the files held when they were last looked at, used or not.
    seen: Mutex<u64>,
    handshakes: Semaphore,
}

#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    /// When the certificate ends, where it can be told.
    ends_at: Option<SystemTime>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files; there is no server without a good certificate.
    pub fn open(settings: TlsSettings) -> Result<Arc<Self>, TlsError> {
        let contents = settings.files.read();
        let seen = Mutex::new(mark(&contents));
        let current = RwLock::new(Current::from(&settings.files, &contents?)?);
        let handshakes = Semaphore::new(settings.handshakes_max);
        let tls = Self { settings, current, seen, handshakes };
        if tls.ends_at().is_some_and(|ends_at| ends_at <= SystemTime::now()) {
            let file = tls.settings.files.certificate.display();
            tracing::warn!(%file, "the certificate has expired: clients will not accept it");
        }
        Ok(Arc::new(tls))
    }

    /// When the certificate in use ends.
    pub fn ends_at(&self) -> Option<SystemTime> {
        self.current().ends_at
    }

    /// Looks at the files: a certificate that is new and good is used from the next connection on.
    /// Says in the log what has become of it.
    pub async fn refresh(self: &Arc<Self>) {
        let tls = Arc::clone(self);
        // Files may be far away.
        let looked = tokio::task::spawn_blocking(move || tls.look()).await;
        match looked {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => {
                let days_left = self.ends_at().map(days_left);
                tracing::info!(days_left, "there is a new certificate: it is used from now on");
            }
            Ok(Err(error)) => {
                let error = with_sources(&error);
                tracing::error!(error, "a new certificate is refused: the one before it is kept");
            }
            Err(error) => tracing::error!(%error, "certificates could not be looked at"),
        }
    }

    /// Looks now and then, until `stop`.
    pub(crate) async fn follow(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.settings.look_every) => {}
                () = stop.cancelled() => return,
            }
            self.refresh().await;
        }
    }

    /// Speaks with a client until both know whom they have before them; gives the client's
    /// certificate, if it has shown one.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<Certificate>), HandshakeError> {
        let handshake = async {
            let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
            // Who says nothing takes nobody's turn.
            let _turn = self.handshakes.acquire().await;
            hello.into_stream(self.current().config).await
        };
        let within = self.settings.handshake_within;
        let done = tokio::time::timeout(within, handshake).await;
        let stream = done.map_err(|_| HandshakeError::TooSlow)??;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let certificate = shown.and_then(|shown| Certificate::read(shown));
        Ok((stream, certificate))
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there was a new certificate. What was refused is refused once, not at every look.
    fn look(&self) -> Result<bool, TlsError> {
        let contents = self.settings.files.read();
        // Held throughout: of two looks the later one must not be overtaken.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = mark(&contents);
        if std::mem::replace(&mut *seen, mark) == mark {
            return Ok(false);
        }
        let fresh = Current::from(&self.settings.files, &contents?)?;
        if fresh.ends_at.is_some_and(|ends_at| ends_at <= SystemTime::now()) {
            return Err(TlsError::Expired(self.settings.files.certificate.clone()));
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(true)
    }
}

impl Current {
    fn from(files: &TlsFiles, contents: &files::Contents) -> Result<Self, TlsError> {
        let (config, chain) = files.config(contents)?;
        let own = chain.first().and_then(|own| Certificate::read(own));
        Ok(Self { config: Arc::new(config), ends_at: own.map(|own| own.ends_at) })
    }
}

/// Tells contents apart. Nobody who could make two alike gains by it: the files are theirs.
fn mark(contents: &Result<files::Contents, TlsError>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match contents {
        Ok(contents) => contents.hash(&mut hasher),
        Err(error) => with_sources(error).hash(&mut hasher),
    }
    hasher.finish()
}

fn with_sources(error: &TlsError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}

fn days_left(ends_at: SystemTime) -> u64 {
    let left = ends_at.duration_since(SystemTime::now()).unwrap_or_default();
    left.as_secs() / (24 * 60 * 60)
}
