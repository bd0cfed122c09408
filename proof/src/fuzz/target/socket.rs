//! What a client sends on a WebSocket of events.
//!
//! Whatever it is, what comes back are frames as the protocol has them: texts that are JSON, and
//! pongs that repeat a ping; and the socket ends once its client has.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::fuzz::ground::Ground;
use crate::fuzz::peer::is_late;
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, Wrong, broken, json};

/// How long an end is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
const HANDSHAKE: &str = "GET /ws?kinds=worker.* HTTP/1.1\r\nhost: proof\r\nconnection: upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Of a message, which has nothing to say.
const BYTES_MAX: usize = 4 * 1024;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

pub(super) const TARGET: Target = Target {
    name: "socket",
    form: Form::Bytes,
    words: &[
        "\u{1}\u{0}",
        "\u{9}",
        "\u{8}\u{3}",
        "\u{0}\u{0}\u{0}\u{0}",
        "\u{7f}",
        "\u{7e}",
        "subscribe",
        "{\"type\":\"hello\"}",
    ],
    bytes_max: 128 * 1024,
    short: 1_000,
    memory: Memory::Server,
    seeds: |_| Ok(seeds()),
    check,
};

fn check(ground: &mut Ground, input: &[u8]) -> Verdict {
    let peer = ground.peer()?;
    let mut stream = peer.connect()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(HANDSHAKE.as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if !head.starts_with(b"HTTP/1.1 101") {
        return broken(format!("no socket: {}", head.escape_ascii()));
    }
    let began = Instant::now();
    // Closed in the middle of something, it is not read to its end.
    let _ = stream.write_all(input).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if is_late(&error) => return broken("the socket does not end"),
        // A reset may have taken the last frames with it.
        Err(_) | Ok(_) => {}
    }
    peer.note(began.elapsed());
    peer.check()?;
    judge(input, &bytes)
}

/// Whether what came back is right, given what was sent.
fn judge(sent: &[u8], bytes: &[u8]) -> Verdict {
    let (received, rest) = frames(bytes);
    if received.iter().any(|frame| frame.masked) {
        return broken("a server's frame is masked");
    }
    // A reset may cut the last one.
    if rest > 16 * 1024 {
        return broken(format!("bytes that are no frame: {rest}"));
    }
    let (sent, left) = frames(sent);
    let mut pings = sent.iter().filter(|frame| frame.code == PING);
    for frame in &received {
        match frame.code {
            TEXT if json::scan(&frame.body).is_json => {}
            PONG => is_pong_of(&mut pings, frame)?,
            PING | CLOSE => {}
            code => {
                return broken(format!("a frame of kind {code}: {}", frame.body.escape_ascii()));
            }
        }
    }
    if left > 0 || !sent.iter().all(Frame::is_plain) {
        return Ok(Seen::Refused);
    }
    let has = |frames: &[Frame], code| frames.iter().any(|frame| frame.code == code);
    if has(&sent, CLOSE) && !has(&received, CLOSE) {
        return broken("a client that closes is not answered");
    }
    if has(&sent, PING) && !has(&sent, CLOSE) && !has(&received, PONG) {
        return broken("a ping is not answered");
    }
    Ok(Seen::Taken)
}

fn is_pong_of<'f>(pings: &mut impl Iterator<Item = &'f Frame>, pong: &Frame) -> Result<(), Wrong> {
    // Of several pings the last one may be answered alone.
    match pings.any(|ping| ping.body == pong.body) {
        true => Ok(()),
        false => broken(format!("a pong of no ping: {}", pong.body.escape_ascii())),
    }
}

struct Frame {
    first: u8,
    code: u8,
    masked: bool,
    body: Vec<u8>,
}

impl Frame {
    /// Whether it is a whole message, as any client may send it: nothing that depends on others.
    fn is_plain(&self) -> bool {
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let fits = match self.code {
            TEXT => self.body.len() <= BYTES_MAX && is_text(&self.body),
            2 => self.body.len() <= BYTES_MAX,
            PING | PONG => self.body.len() <= 125,
            CLOSE => match self.body.split_first_chunk() {
                Some((code, reason)) => {
                    u16::from_be_bytes(*code) == 1000 && reason.len() <= 123 && is_text(reason)
                }
                None => self.body.is_empty(),
            },
            _ => false,
        };
        self.masked && self.first & 0xf0 == 0x80 && fits
    }
}

/// The frames that some bytes are, and how many bytes are left.
fn frames(mut bytes: &[u8]) -> (Vec<Frame>, usize) {
    let mut frames = Vec::new();
    while let Some((frame, rest)) = frame(bytes) {
        frames.push(frame);
        bytes = rest;
    }
    (frames, bytes.len())
}

fn frame(bytes: &[u8]) -> Option<(Frame, &[u8])> {
    let ([first, second], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match second & 0x7f {
        126 => rest
            .split_first_chunk()
            .map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest))?,
        127 => {
            rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest))?
        }
        length => (u64::from(length), rest),
    };
    let masked = second & 0x80 != 0;
    let (mask, rest) = match masked {
        true => rest.split_first_chunk::<4>()?,
        false => (&[0; 4], rest),
    };
    let (body, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let body = body.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Some((Frame { first: *first, code: first & 0xf, masked, body }, rest))
}

/// Frames as clients send them, alone and in a row.
fn seeds() -> Vec<Vec<u8>> {
    let masked = |first: u8, body: &[u8]| {
        let mask = [0x12, 0x34, 0x56, 0x78];
        let mut frame = vec![first];
        match u16::try_from(body.len()) {
            Ok(length @ ..126) => frame.push(0x80 | length as u8),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend((body.len() as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(body.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    };
    let text = masked(0x81, b"{\"type\":\"hello\"}");
    let ping = masked(0x89, b"are you there?");
    vec![
        text.clone(),
        ping.clone(),
        masked(0x88, &[0x03, 0xe8, b'b', b'y', b'e']),
        masked(0x82, &[0; 300]),
        masked(0x8a, b""),
        [masked(0x01, b"a text "), ping.clone(), masked(0x80, b"in two parts")].concat(),
        [ping.clone(), ping, text, masked(0x88, b"")].concat(),
        masked(0x81, &[b'x'; 5_000]),
        masked(0x82, &[7; 70_000]),
        vec![0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
    ]
}
