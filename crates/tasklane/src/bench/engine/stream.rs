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
    chunked: bool,
    began: bool,
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
        if self.chunked {
            self.unframe()?;
        } else {
            self.text.append(&mut self.raw);
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
        if !head.starts_with("http/1.1 200") {
            bail!("no stream of events: {}", head.lines().next().unwrap_or_default());
        }
        self.chunked = head.contains("transfer-encoding: chunked");
        self.began = true;
        self.raw = rest;
        Ok(true)
    }

    fn unframe(&mut self) -> anyhow::Result<()> {
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

    #[test]
    fn lines_come_out_whole_however_they_were_cut() {
        let sent = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
            5\r\nid: 1\r\n9\r\n\ndata: {}\r\n2\r\n\n\n\r\n";
        for size in 1..sent.len() {
            let (mut stream, mut lines) = (Stream::default(), Vec::new());
            for piece in sent.chunks(size) {
                stream.raw.extend_from_slice(piece);
                let mut keep = |line: &[u8]| {
                    lines.push(String::from_utf8_lossy(line).into_owned());
                    Ok(())
                };
                stream.lines(&mut keep).unwrap();
            }
            assert_eq!(lines, ["id: 1", "data: {}", ""], "pieces of {size}");
        }
    }
}
