//! Connections to a server.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::error::Error;

/// Makes connections for the pool.
#[derive(Clone)]
pub(super) struct Connector {
    plain: HttpConnector,
}

impl Connector {
    pub(super) fn new(base: &Uri, within: Duration) -> Result<Self, Error> {
        if base.scheme_str() == Some("https") {
            return Err(Error::Usage("this program is built without https".into()));
        }
        let mut plain = HttpConnector::new();
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(within));
        Ok(Self { plain })
    }
}

type Trouble = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = Trouble;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Trouble>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Trouble>> {
        self.plain.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = self.plain.call(target);
        Box::pin(async move { Ok(connecting.await?) })
    }
}
