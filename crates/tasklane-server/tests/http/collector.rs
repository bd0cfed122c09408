//! A collector of traces for one test: takes what comes and remembers it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::authority::Issued;

/// What a collector does with a request instead of answering it.
pub(crate) const SILENT: u16 = 0;

#[derive(Default)]
struct Memory {
    status: AtomicU16,
    /// What the next ones are answered before that.
    first: Mutex<Vec<u16>>,
    requests: AtomicUsize,
    heads: Mutex<Vec<String>>,
    bodies: Mutex<Vec<Value>>,
    /// Connections that get no answer.
    kept: Mutex<Vec<Box<dyn Send>>>,
}

pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    memory: Arc<Memory>,
}

impl Collector {
    /// One that answers with `status`.
    pub(crate) fn start(status: u16) -> Self {
        Self::listen(status, None)
    }

    /// One that speaks TLS, with this certificate.
    pub(crate) fn start_secure(own: &Issued) -> Self {
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![own.der()],
                PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
            )
            .unwrap();
        Self::listen(200, Some(Arc::new(config)))
    }

    fn listen(status: u16, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let memory = Arc::new(Memory::default());
        memory.status.store(status, Ordering::Relaxed);
        let own = Arc::clone(&memory);
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                match &tls {
                    None => own.take(stream),
                    Some(tls) => {
                        let server = ServerConnection::new(Arc::clone(tls)).unwrap();
                        own.take(StreamOwned::new(server, stream));
                    }
                }
            }
        });
        Self { address, memory }
    }

    /// Answers the next request so, and those after it as before.
    pub(crate) fn answer_once(&self, status: u16) {
        self.memory.first.lock().unwrap().push(status);
    }

    pub(crate) fn answer(&self, status: u16) {
        self.memory.status.store(status, Ordering::Relaxed);
    }

    /// Requests that have come, whatever became of them.
    pub(crate) fn requests(&self) -> usize {
        self.memory.requests.load(Ordering::Relaxed)
    }

    /// What stood before the bodies that were taken, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.memory.heads.lock().unwrap().clone()
    }

    /// The bodies that were taken.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.memory.bodies.lock().unwrap().clone()
    }

    /// The spans that were taken.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let of = |body: &Value| {
            body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        };
        self.bodies().iter().flat_map(of).collect()
    }
}

impl Memory {
    fn take(&self, stream: impl Read + Write + Send + 'static) {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let first = self.first.lock().unwrap().pop();
        let status = first.unwrap_or_else(|| self.status.load(Ordering::Relaxed));
        if status == SILENT {
            self.kept.lock().unwrap().push(Box::new(reader.into_inner()));
            return;
        }
        if status == 200 {
            self.heads.lock().unwrap().push(head);
            self.bodies.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
        }
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\n{{}}");
        let _ = reader.get_mut().write_all(answer.as_bytes());
    }
}
