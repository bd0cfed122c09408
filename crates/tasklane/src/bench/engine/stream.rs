//! An answer without an end: chunks taken apart into lines.

use anyhow::{Context, bail};
use memchr::{memchr, memmem};

/// Bytes of an event stream on their way to lines.
#[derive(Default)]
pub(crate) struct Stream {
    /// As they came.
    pub(crate) raw: Vec<u8>,
    /// Without their frames.
    text: Vec<u8>,
    framing: Framing,
    began: bool,
}

/// How bytes are packed on their way.
#[derive(Default)]
enum Framing {
    #[default]
    None,
    Chunks,
    /// The texts of a WebSocket, each of which becomes a line.
    Texts,
}

impl Stream {
    /// Gives every whole line that has come.
    pub(crate) fn lines(
        &mut self,
        mut each: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.began && !self.begin()? {
            return Ok(());
        }
        match self.framing {
            Framing::None => self.text.append(&mut self.raw),
            Framing::Chunks => self.take_chunks()?,
            Framing::Texts => self.take_texts(),
        }
        let mut rest = self.text.as_slice();
        while let Some((line, after)) =
            memchr(b'\n', rest).and_then(|length| rest.split_at_checked(length + 1))
        {
            each(line.trim_ascii_end())?;
            rest = after;
        }
        let taken = self.text.len() - rest.len();
        self.text.drain(..taken);
        Ok(())
    }

    /// Reads the head. Without it there are no lines yet.
    fn begin(&mut self) -> anyhow::Result<bool> {
        let Some(end) = memmem::find(&self.raw, b"\r\n\r\n") else { return Ok(false) };
        let rest = self.raw.split_off(end + 4);
        let head = String::from_utf8_lossy(&self.raw).to_ascii_lowercase();
        self.framing = if head.starts_with("http/1.1 101") {
            Framing::Texts
        } else if !head.starts_with("http/1.1 200") {
            bail!("no stream of events: {}", head.lines().next().unwrap_or_default());
        } else if head.contains("transfer-encoding: chunked") {
            Framing::Chunks
        } else {
            Framing::None
        };
        self.began = true;
        self.raw = rest;
        Ok(true)
    }

    /// A server masks nothing, so what follows the length is the text. Pings have no text, and make a
    /// line without any.
    fn take_texts(&mut self) {
        let mut at = 0;
        while let Some([_, length, rest @ ..]) = self.raw.get(at..) {
            let (length, rest, head) = match (length, rest) {
                (126, [a, b, rest @ ..]) => (u16::from_be_bytes([*a, *b]).into(), rest, 4),
                (127, [a, b, c, d, e, f, g, h, rest @ ..]) => {
                    let length = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                    (usize::try_from(length).unwrap_or(usize::MAX), rest, 10)
                }
                (126 | 127, _) => break,
                (short, rest) => (usize::from(*short), rest, 2),
            };
            let Some(text) = rest.get(..length) else { break };
            self.text.extend_from_slice(text);
            self.text.push(b'\n');
            at += head + length;
        }
        self.raw.drain(..at);
    }

    fn take_chunks(&mut self) -> anyhow::Result<()> {
        let mut at = 0;
        while let Some(rest) = self.raw.get(at..)
            && let Some(line) = memmem::find(rest, b"\r\n")
        {
            let size = std::str::from_utf8(rest.get(..line).unwrap_or_default())?;
            let size = usize::from_str_radix(size, 16).context("a chunk without its size")?;
            let start = line + 2;
            if rest.len() < start + size + 2 {
                break;
            }
            self.text.extend_from_slice(rest.get(start..start + size).unwrap_or_default());
            at += start + size + 2;
        }
        self.raw.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of bytes that come in pieces.
    fn lines(sent: &[u8], size: usize) -> Vec<String> {
        let (mut stream, mut lines) = (Stream::default(), Vec::new());
        for piece in sent.chunks(size) {
            stream.raw.extend_from_slice(piece);
            let mut keep = |line: &[u8]| {
                lines.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            };
            stream.lines(&mut keep).unwrap();
        }
        lines
    }

    #[test]
    fn lines_come_out_whole_however_they_were_cut() {
        let sent = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
            5\r\nid: 1\r\n9\r\n\ndata: {}\r\n2\r\n\n\n\r\n";
        for size in 1..sent.len() {
            assert_eq!(lines(sent, size), ["id: 1", "data: {}", ""], "pieces of {size}");
        }
    }

    #[test]
    fn texts_of_a_socket_are_lines() {
        let texts = ["{}".to_owned(), "a".repeat(126), "b".repeat(70_000)];
        let mut sent = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec();
        for text in &texts {
            sent.push(0x81);
            match text.len() {
                short @ ..126 => sent.push(short as u8),
                long @ ..65_536 => {
                    sent.push(126);
                    sent.extend((long as u16).to_be_bytes());
                }
                longer => {
                    sent.push(127);
                    sent.extend((longer as u64).to_be_bytes());
                }
            }
            sent.extend(text.as_bytes());
        }
        for size in [1, 7, 4_096, sent.len()] {
            assert_eq!(lines(&sent, size), texts, "pieces of {size}");
        }
    }
}
