//! A server that answers by a script, for what a real one does too seldom.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is done with a request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Answered with this status, headers and body.
    Answer(u16, &'static str, String),
    /// The connection ends without an answer.
    HangUp,
    /// Nothing at all.
    Silence,
}

/// What has come in.
#[derive(Debug, Default)]
struct Seen {
    requests: Vec<(tokio::time::Instant, String)>,
    connections: usize,
}

pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Script {
    /// Does one act after another, then hangs up on everything.
    pub(crate) async fn of(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let acts = Arc::new(Mutex::new(acts.into_iter()));
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                let (acts, seen) = (Arc::clone(&acts), Arc::clone(&shared));
                tokio::spawn(serve(stream, acts, seen));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, with their bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.iter().map(|(_, text)| text.clone()).collect()
    }

    /// How long after the first the second request came.
    pub(crate) fn pause(&self) -> std::time::Duration {
        let seen = self.seen.lock().unwrap();
        seen.requests[1].0 - seen.requests[0].0
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }
}

async fn serve(
    mut stream: TcpStream,
    acts: Arc<Mutex<std::vec::IntoIter<Act>>>,
    seen: Arc<Mutex<Seen>>,
) {
    while let Some(request) = read(&mut stream).await {
        seen.lock().unwrap().requests.push((tokio::time::Instant::now(), request));
        let act = acts.lock().unwrap().next();
        match act {
            Some(Act::Answer(status, headers, body)) => {
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            Some(Act::Silence) => std::future::pending().await,
            Some(Act::HangUp) | None => return,
        }
    }
}

/// A whole request, as its first line and its body.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length: ").and_then(|length| length.parse().ok())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(format!("{} {body}", head.lines().next().unwrap()));
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => text.push_str(std::str::from_utf8(&buffer[..count]).unwrap()),
        }
    }
}
