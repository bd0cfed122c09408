//! Calls on a running server: one connection each, for commands are rare.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tasklane_client::wire::Problem;
use tasklane_server::tls::{TlsError, TlsFiles, Trust};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where the key is.
const KEY: &str = "TASKLANE_API_KEY";
/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server with https is spoken to.
#[derive(Debug, Default, Args)]
pub(crate) struct Secure {
    /// Certificates of the authorities that a server with https is trusted by, in PEM; without it,
    /// those of the system.
    #[arg(long, env = "TASKLANE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A certificate to show to a server that asks for one, in PEM.
    #[arg(long, env = "TASKLANE_CLIENT_CERTIFICATE", value_name = "FILE", requires = "client_key")]
    client_certificate: Option<PathBuf>,
    /// Its private key.
    #[arg(long, env = "TASKLANE_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
}

impl Secure {
    fn trust(&self) -> Result<Trust, TlsError> {
        let own = self.client_certificate.clone().zip(self.client_key.clone());
        let own = own.map(|(certificate, key)| TlsFiles { certificate, key, clients: None });
        Trust::new(self.ca.as_deref(), own.as_ref())
    }
}

/// A server, and the key for it.
#[derive(Debug)]
pub(crate) struct Remote {
    authority: String,
    /// Whom to trust, where TLS is spoken.
    trust: Option<Trust>,
    key: Option<String>,
}

impl Remote {
    /// The server at `url`.
    pub(crate) fn new(url: &str, how: &Secure) -> anyhow::Result<Self> {
        let secure = url.strip_prefix("https://");
        let authority = url.strip_prefix("http://").or(secure);
        let authority = authority.map(|rest| rest.trim_end_matches('/'));
        let plain = |text: &&str| !text.is_empty() && !text.contains(['/', '@', ' ', '\r', '\n']);
        let Some(authority) = authority.filter(plain) else {
            bail!("--server {url}: give an address such as http://127.0.0.1:7170");
        };
        let has_port = authority.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let port = match (has_port, secure) {
            (true, _) => "",
            (false, Some(_)) => ":443",
            (false, None) => ":80",
        };
        let key = std::env::var(KEY).ok().filter(|key| !key.is_empty());
        if key.as_ref().is_some_and(|key| key.contains(['\r', '\n'])) {
            bail!("{KEY} holds more than one line");
        }
        let trust = secure.map(|_| how.trust()).transpose()?;
        Ok(Self { authority: format!("{authority}{port}"), trust, key })
    }

    /// Sends a request and reads the answer; a refusal is an error in its own words.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> anyhow::Result<T> {
        let (status, text) = self.answer(method, path, body).await?;
        if (200..300).contains(&status) {
            return serde_json::from_str(&text).context("the answer is not as expected");
        }
        let problem: Problem = serde_json::from_str(&text)
            .map_err(|_| anyhow!("{} answered {status}", self.authority))?;
        let hint = match status {
            401 => format!("\nPut a good key into {KEY}."),
            403 => format!("\nThe key in {KEY} does not allow it."),
            _ => String::new(),
        };
        bail!("{}: {}{hint}", problem.title, problem.detail)
    }

    /// Whether there is a key to show.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Looks; gives status and body, whatever they are. An error is a server that is not there.
    pub(crate) async fn ask(&self, path: &str) -> anyhow::Result<(u16, String)> {
        self.answer("GET", path, None::<&()>).await
    }

    async fn answer(
        &self,
        method: &str,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> anyhow::Result<(u16, String)> {
        let exchange = timeout(PATIENCE, self.exchange(method, path, body)).await;
        let answer = exchange.with_context(|| format!("{} does not answer", self.authority))??;
        let (status, text) = read(&answer)
            .ok_or_else(|| anyhow!("what answers at {} is no server", self.authority))?;
        Ok((status, text.to_owned()))
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> anyhow::Result<Vec<u8>> {
        let authority = &self.authority;
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n");
        if let Some(key) = &self.key {
            write!(head, "authorization: Bearer {key}\r\n")?;
        }
        let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        if !body.is_empty() {
            head.push_str("content-type: application/json\r\n");
        }
        write!(head, "content-length: {}\r\n\r\n", body.len())?;
        let stream = TcpStream::connect(authority)
            .await
            .with_context(|| format!("cannot reach {authority}"))?;
        let Some(trust) = &self.trust else { return talk(stream, &head, &body).await };
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
        let stream = trust.connect(host, stream).await.with_context(|| {
            format!("no TLS with {authority}; --ca FILE names the authorities to trust")
        })?;
        talk(stream, &head, &body).await
    }
}

/// Sends a request and reads until the end.
async fn talk(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    head: &str,
    body: &[u8],
) -> anyhow::Result<Vec<u8>> {
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Status and body. Answers to what is asked here come whole, with their length.
fn read(answer: &[u8]) -> Option<(u16, &str)> {
    let (head, body) = std::str::from_utf8(answer).ok()?.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_servers() {
        let authority =
            |url: &str| Remote::new(url, &Secure::default()).map(|remote| remote.authority).ok();
        assert_eq!(authority("http://127.0.0.1:7170/").as_deref(), Some("127.0.0.1:7170"));
        assert_eq!(authority("http://queue.example.org").as_deref(), Some("queue.example.org:80"));
        for bad in ["127.0.0.1:7170", "ftp://a.example", "http://", "http://a/b", "http://u@a"] {
            assert_eq!(authority(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        assert_eq!(read(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{}"), Some((200, "{}")));
        assert_eq!(read(b"SSH-2.0-x\r\n\r\n"), None);
    }
}
