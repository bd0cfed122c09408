//! A client that listens to live events, as a stream or on a WebSocket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::site::{PATIENCE, Site};

/// An event of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: Value,
    pub(crate) retry: Option<String>,
}

impl Heard {
    pub(crate) fn seq(&self) -> u64 {
        self.data["seq"].as_u64().unwrap_or_else(|| panic!("no number: {self:?}"))
    }

    pub(crate) fn cursor(&self) -> String {
        self.id.clone().unwrap_or_else(|| panic!("no cursor: {self:?}"))
    }
}

/// A stream of server-sent events.
pub(crate) struct Listener {
    reader: BufReader<TcpStream>,
    text: String,
}

impl Listener {
    /// Connects with a query and, to go on, the last event that was seen.
    pub(crate) fn open(site: &Site, query: &str, seen: Option<&str>) -> Self {
        Self::on(site.connect(), query, seen)
    }

    pub(crate) fn on(stream: TcpStream, query: &str, seen: Option<&str>) -> Self {
        let seen = seen.map(|seen| format!("last-event-id: {seen}\r\n")).unwrap_or_default();
        Self::ask(stream, query, &seen)
    }

    fn ask(mut stream: TcpStream, query: &str, headers: &str) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET /api/v1/events?{query} HTTP/1.1\r\nhost: test\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader);
        assert!(head.starts_with("http/1.1 200") && head.contains("text/event-stream"), "{head}");
        Self { reader, text: String::new() }
    }

    /// Connects with headers of its own.
    pub(crate) fn with(site: &Site, query: &str, headers: &str) -> Self {
        Self::ask(site.connect(), query, headers)
    }

    /// Connects at the head; it is live when this returns.
    pub(crate) fn live(site: &Site, query: &str) -> (Self, Heard) {
        let mut listener = Self::open(site, query, None);
        let hello = listener.expect();
        assert_eq!(hello.kind, "system.hello");
        (listener, hello)
    }

    /// The next event; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Heard> {
        let asked = Instant::now();
        loop {
            assert!(asked.elapsed() < Duration::from_secs(60), "nothing comes");
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = parse(event);
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            if !self.read_chunk() {
                return None;
            }
        }
    }

    pub(crate) fn expect(&mut self) -> Heard {
        self.next().expect("the stream has ended")
    }

    /// The next event of this kind; others are passed over.
    pub(crate) fn expect_kind(&mut self, kind: &str) -> Heard {
        loop {
            let heard = self.expect();
            if heard.kind == kind {
                return heard;
            }
        }
    }

    /// Whether the connection ends, whatever is still in it.
    pub(crate) fn ends(&mut self) -> bool {
        self.reader.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    fn read_chunk(&mut self) -> bool {
        let mut size = String::new();
        if self.reader.read_line(&mut size).unwrap_or(0) == 0 {
            return false;
        }
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; size + 2];
        if self.reader.read_exact(&mut chunk).is_err() || size == 0 {
            return false;
        }
        self.text.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        true
    }
}

fn parse(text: &str) -> Option<Heard> {
    let field = |name: &str| {
        let with_colon = format!("{name}: ");
        text.lines().find_map(|line| line.strip_prefix(&with_colon)).map(str::to_owned)
    };
    let data = serde_json::from_str(&field("data")?).unwrap();
    Some(Heard { id: field("id"), kind: field("event").unwrap(), data, retry: field("retry") })
}

fn read_head(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = reader.read_line(&mut head).unwrap();
        assert!(read > 0, "no answer: {head}");
    }
    head.to_ascii_lowercase()
}

/// Connects with a small buffer for what comes, so that not reading is noticed soon.
pub(crate) fn connect_narrow(address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

/// A WebSocket.
pub(crate) struct Socket {
    reader: BufReader<TcpStream>,
}

/// What comes on a WebSocket.
#[derive(Debug, PartialEq)]
pub(crate) enum Received {
    Event(Value),
    Pong(Vec<u8>),
    Closed(Option<u16>),
}

impl Socket {
    /// Connects; gives the answer's head where it is not an upgrade.
    pub(crate) fn open(site: &Site, path: &str, headers: &str) -> Result<Self, String> {
        Self::on(site.connect(), path, headers)
    }

    pub(crate) fn on(mut stream: TcpStream, path: &str, headers: &str) -> Result<Self, String> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             {headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader);
        if head.starts_with("http/1.1 101") { Ok(Self { reader }) } else { Err(head) }
    }

    /// Sends a frame; the mask is nought.
    pub(crate) fn send(&mut self, operation: u8, body: &[u8]) {
        let mut frame = vec![0x80 | operation];
        match u8::try_from(body.len()) {
            Ok(length) if length < 126 => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(body);
        self.reader.get_mut().write_all(&frame).unwrap();
    }

    pub(crate) fn next(&mut self) -> Received {
        let mut head = [0; 2];
        if self.reader.read_exact(&mut head).is_err() {
            return Received::Closed(None);
        }
        let length = match head[1] {
            126 => u64::from(u16::from_be_bytes(self.take())),
            127 => u64::from_be_bytes(self.take()),
            short => u64::from(short),
        };
        let mut body = vec![0; usize::try_from(length).unwrap()];
        self.reader.read_exact(&mut body).unwrap();
        match head[0] & 0x0F {
            1 => Received::Event(serde_json::from_slice(&body).unwrap()),
            8 => Received::Closed(body.first_chunk().map(|code| u16::from_be_bytes(*code))),
            9 => self.next(),
            10 => Received::Pong(body),
            other => panic!("an unexpected frame: {other}"),
        }
    }

    pub(crate) fn expect(&mut self) -> Value {
        match self.next() {
            Received::Event(event) => event,
            other => panic!("not an event: {other:?}"),
        }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes
    }
}
