//! Finds the server that takes writes, and connects to it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::SockRef};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
    Value,
};
use redis::{ClientTlsConfig, TlsCertificates};
use tasklane_store::StoreError;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::address::{Address, Files, Way};
use crate::fault::{Fault, refused};
use crate::place::{self, Asked, Place};
use crate::value;

/// What a socket of this machine should hold of what is sent; the system gives as much of it as
/// programs may have. Redis waits for the rest of a long write where it holds less: with twice the usual
/// 208 KiB, submits by 1000 are a fifth to a third faster, in turns.
const SOCKET_BYTES: usize = 4 * 1024 * 1024;

/// Where connections come from.
pub(crate) enum Source {
    Direct(Client),
    Sentinel { sentinels: Vec<Client>, name: String, primary: ConnectionInfo },
    Cluster { nodes: Vec<Client>, key: Vec<u8> },
}

/// A connection that was made.
pub(crate) struct Connected {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) driver: Option<Driver>,
    /// Where it leads, if that was asked for.
    pub(crate) place: Option<Place>,
}

/// What carries a connection to and fro, where the client library does not see to that. Once it is
/// given up the connection is closed, even if Redis has not answered everything yet.
pub(crate) type Driver = Arc<JoinSet<()>>;

impl Source {
    /// `key` is any key of the store: in a cluster it tells which node holds them all.
    pub(crate) fn new(address: &Address, key: Vec<u8>) -> Result<Self, StoreError> {
        let client = |text: &String| client(text, &address.files);
        let clients = |texts: &[String]| texts.iter().map(client).collect::<Result<Vec<_>, _>>();
        Ok(match &address.way {
            Way::Direct(server) => Self::Direct(client(server)?),
            Way::Sentinel { sentinels, name, primary } => Self::Sentinel {
                sentinels: clients(sentinels)?,
                name: name.clone(),
                primary: client(primary)?.get_connection_info().clone(),
            },
            Way::Cluster(nodes) => Self::Cluster { nodes: clients(nodes)?, key },
        })
    }

    /// Connects to the server that takes writes now. Where most of those who are asked for it name one
    /// place, it is that or none; otherwise each that was named has a share of the time that is left.
    pub(crate) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        time_max: Duration,
    ) -> Result<Connected, Fault> {
        let begun = Instant::now();
        let mut last = unavailable("connecting took too long");
        let like = match self {
            Self::Direct(client) => {
                let connecting = tokio::time::timeout(time_max, connect(client, config));
                return connecting.await.unwrap_or(Err(last));
            }
            Self::Sentinel { primary, .. } => primary,
            Self::Cluster { nodes, .. } => match nodes.first() {
                Some(node) => node.get_connection_info(),
                None => return Err(last),
            },
        };
        let (places, _) = place::ask(self.asked(), config, time_max).await?.candidates();
        for (left, place) in (1..=places.len()).rev().zip(places) {
            let time_left = time_max.saturating_sub(begun.elapsed());
            let share = time_left / u32::try_from(left).unwrap_or(u32::MAX);
            match tokio::time::timeout(share, primary_at(like, place, config)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(fault)) => last = fault,
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Where the server that takes writes is, if most of those who are asked for it agree.
    pub(crate) async fn agreed(
        &self,
        config: &AsyncConnectionConfig,
        time_max: Duration,
    ) -> Option<Place> {
        match place::ask(self.asked(), config, time_max).await.ok()?.candidates() {
            (places, true) => places.into_iter().next(),
            (_, false) => None,
        }
    }

    /// Who is asked.
    fn asked(&self) -> Vec<Asked> {
        match self {
            Self::Direct(_) => Vec::new(),
            Self::Sentinel { sentinels, name, .. } => {
                let asked = |client: &Client| Asked::Sentinel(client.clone(), name.clone());
                sentinels.iter().map(asked).collect()
            }
            Self::Cluster { nodes, key } => {
                nodes.iter().map(|client| Asked::Node(client.clone(), key.clone())).collect()
            }
        }
    }
}

/// Connects to a server that should be a primary, and makes sure that it is.
async fn primary_at(
    like: &ConnectionInfo,
    place: Place,
    config: &AsyncConnectionConfig,
) -> Result<Connected, Fault> {
    let (host, port) = place.clone();
    let address = match like.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    let client = Client::open(like.clone().set_addr(address)).map_err(|error| fault(&error))?;
    let mut connected = connect(&client, config).await?;
    let mut info = redis::cmd("INFO");
    let answer = info.arg("replication").query_async::<Value>(&mut connected.connection).await;
    let text = value::bytes(answer.map_err(|error| fault(&error))?)?.unwrap_or_default();
    match String::from_utf8_lossy(&text).lines().any(|line| line == "role:master") {
        true => Ok(Connected { place: Some(place), ..connected }),
        false => Err(unavailable("the primary has changed, and its successor is not known yet")),
    }
}

pub(super) async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> Result<Connected, Fault> {
    let info = client.get_connection_info();
    let connected = match info.addr() {
        ConnectionAddr::Unix(path) => connect_here(path, info, config).await,
        _ => {
            let connection = client.get_multiplexed_async_connection_with_config(config).await;
            connection.map(|connection| Connected { connection, driver: None, place: None })
        }
    };
    connected.map_err(|error| fault(&error))
}

/// Connects to a server on this machine by its socket.
async fn connect_here(
    path: &Path,
    info: &ConnectionInfo,
    config: &AsyncConnectionConfig,
) -> Result<Connected, RedisError> {
    let socket = UnixStream::connect(path).await?;
    // It is only slower without.
    let _ = SockRef::from(&socket).set_send_buffer_size(SOCKET_BYTES);
    let (connection, serve) =
        MultiplexedConnection::new_with_config(info.redis_settings(), socket, config.clone())
            .await?;
    let mut driver = JoinSet::new();
    driver.spawn(serve);
    Ok(Connected { connection, driver: Some(Arc::new(driver)), place: None })
}

fn client(text: &str, files: &Files) -> Result<Client, StoreError> {
    let info = text.into_connection_info().map_err(|error| refused(&error))?;
    // The end of a write does not wait until its beginning is acknowledged.
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Client::open(info).map_err(|error| refused(&error));
    }
    // The one that everything else here uses; another may have been chosen already.
    let _ = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider().install_default();
    let read = |path: &std::path::PathBuf| {
        let said =
            |error| StoreError::Unavailable(format!("cannot read {}: {error}", path.display()));
        std::fs::read(path).map_err(said)
    };
    let client_tls = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
        _ => None,
    };
    let root_cert = files.ca.as_ref().map(read).transpose()?;
    let certificates = TlsCertificates { client_tls, root_cert };
    Client::build_with_tls(info, certificates).map_err(|error| refused(&error))
}

pub(super) fn fault(error: &RedisError) -> Fault {
    Fault::Store(refused(error))
}

pub(super) fn unavailable(text: &str) -> Fault {
    Fault::Store(StoreError::Unavailable(format!("Redis: {text}")))
}

#[cfg(all(test, feature = "test-server"))]
mod tests {
    use super::*;
    use crate::test_server::{TestServer, free_port};

    const TIME_MAX: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_connection_that_nobody_has_any_more_is_closed_though_redis_has_not_answered() {
        let server = TestServer::start(&[]).unwrap();
        // Asking takes a moment itself, and lets the connection go on meanwhile.
        let blocked = async |count: usize| {
            let begun = Instant::now();
            let expected = format!("blocked_clients:{count}\r\n");
            while !server.command::<String>(&["INFO", "clients"]).unwrap().contains(&expected) {
                assert!(begun.elapsed() < TIME_MAX, "not {count} are blocked");
                tokio::task::yield_now().await;
            }
        };
        let source = Source::new(&server.address().parse().unwrap(), Vec::new()).unwrap();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connected = source.connect(&config, TIME_MAX).await.unwrap();
        let mut wait = redis::cmd("BLPOP");
        wait.arg("nothing").arg(0);
        tokio::select! {
            answer = wait.query_async::<Value>(&mut connected.connection) => panic!("{answer:?}"),
            () = blocked(1) => {}
        }
        drop(connected);
        blocked(0).await;
    }

    #[tokio::test]
    async fn a_node_that_is_slow_is_waited_for_where_all_others_refuse() {
        const REFUSED: usize = 7;
        let server = TestServer::start(&["--cluster-enabled", "yes"]).unwrap();
        server.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
        let mut nodes = vec![free_port().unwrap(); REFUSED];
        nodes.push(server.port());
        let nodes: Vec<_> = nodes.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let address = format!("redis+cluster://{}/", nodes.join(","));
        let source = Source::new(&address.parse().unwrap(), b"any".to_vec()).unwrap();
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        server.pause().unwrap();
        let resume = async {
            // Later than an equal share of it would be over.
            tokio::time::sleep(TIME_MAX / REFUSED as u32).await;
            server.resume().unwrap();
        };
        let (connected, ()) = tokio::join!(source.connect(&config, TIME_MAX), resume);
        assert!(connected.is_ok());
    }
}
