//! Finds the server that takes writes, and connects to it.

use std::path::Path;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::SockRef};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
    Value,
};
use redis::{ClientTlsConfig, TlsCertificates};
use tasklane_store::StoreError;
use tokio::net::UnixStream;

use crate::address::{Address, Files, Way};
use crate::fault::Fault;
use crate::link::refused;
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

    /// Connects to the server that takes writes now.
    pub(crate) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, Fault> {
        match self {
            Self::Direct(client) => connect(client, config).await,
            Self::Sentinel { sentinels, name, primary } => {
                let mut ask = redis::cmd("SENTINEL");
                ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
                let mut last = unavailable("no sentinel answered");
                for sentinel in sentinels {
                    let found = async {
                        let mut asked = connect(sentinel, config).await?;
                        let answer = ask.query_async(&mut asked).await.map_err(|e| fault(&e))?;
                        let place = place(answer, None)?;
                        let missing = || unavailable(&format!("the sentinels know no {name:?}"));
                        primary_at(primary, place.ok_or_else(missing)?, config).await
                    };
                    match found.await {
                        Ok(connection) => return Ok(connection),
                        Err(fault) => last = fault,
                    }
                }
                Err(last)
            }
            Self::Cluster { nodes, key } => {
                let mut last = unavailable("no node answered");
                for node in nodes {
                    match self.connect_through(node, key, config).await {
                        Ok(connection) => return Ok(connection),
                        Err(fault) => last = fault,
                    }
                }
                Err(last)
            }
        }
    }

    /// Asks one node of a cluster which of them it is.
    async fn connect_through(
        &self,
        node: &Client,
        key: &[u8],
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, Fault> {
        let mut asked = connect(node, config).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("CLUSTER").arg("KEYSLOT").arg(key).cmd("CLUSTER").arg("SLOTS");
        let (slot, ranges): (i64, Value) =
            pipeline.query_async(&mut asked).await.map_err(|error| fault(&error))?;
        let info = node.get_connection_info();
        for range in value::array(ranges)? {
            let mut parts = value::array(range)?.into_iter();
            let mut next = || parts.next().unwrap_or_default();
            let (first, last) = (value::integer(next())?, value::integer(next())?);
            if (first..=last).contains(&slot)
                && let Some(place) = place(next(), Some(info.addr()))?
            {
                return primary_at(info, place, config).await;
            }
        }
        Err(unavailable("the cluster has no node for these keys"))
    }
}

/// Connects to a server that should be a primary, and makes sure that it is.
async fn primary_at(
    like: &ConnectionInfo,
    (host, port): (String, u16),
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Fault> {
    let address = match like.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    let client = Client::open(like.clone().set_addr(address)).map_err(|error| fault(&error))?;
    let mut connection = connect(&client, config).await?;
    let mut info = redis::cmd("INFO");
    let answer = info.arg("replication").query_async::<Value>(&mut connection).await;
    let text = value::bytes(answer.map_err(|error| fault(&error))?)?.unwrap_or_default();
    match String::from_utf8_lossy(&text).lines().any(|line| line == "role:master") {
        true => Ok(connection),
        false => Err(unavailable("the primary has changed, and its successor is not known yet")),
    }
}

/// A host and its port; a host that is not named is the one that was asked.
fn place(answer: Value, asked: Option<&ConnectionAddr>) -> Result<Option<(String, u16)>, Fault> {
    let mut parts = value::array(answer)?.into_iter();
    let (Some(host), Some(port)) = (parts.next(), parts.next()) else { return Ok(None) };
    let host = value::bytes(host)?.unwrap_or_default();
    let host = match (String::from_utf8_lossy(&host).into_owned(), asked) {
        (host, Some(ConnectionAddr::Tcp(own, _) | ConnectionAddr::TcpTls { host: own, .. }))
            if host.is_empty() || host == "?" =>
        {
            own.clone()
        }
        (host, _) => host,
    };
    Ok(u16::try_from(value::integer(port)?).ok().map(|port| (host, port)))
}

async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Fault> {
    let info = client.get_connection_info();
    let connection = match info.addr() {
        ConnectionAddr::Unix(path) => connect_here(path, info, config).await,
        _ => client.get_multiplexed_async_connection_with_config(config).await,
    };
    connection.map_err(|error| fault(&error))
}

/// Connects to a server on this machine by its socket.
async fn connect_here(
    path: &Path,
    info: &ConnectionInfo,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let socket = UnixStream::connect(path).await?;
    // It is only slower without.
    let _ = SockRef::from(&socket).set_send_buffer_size(SOCKET_BYTES);
    let (connection, serve) =
        MultiplexedConnection::new_with_config(info.redis_settings(), socket, config.clone())
            .await?;
    // It ends once the connection and all its clones are gone.
    tokio::spawn(serve);
    Ok(connection)
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

fn fault(error: &RedisError) -> Fault {
    Fault::Store(refused(error))
}

fn unavailable(text: &str) -> Fault {
    Fault::Store(StoreError::Unavailable(format!("Redis: {text}")))
}
