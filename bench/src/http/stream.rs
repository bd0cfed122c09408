//! An answer without an end: chunks taken apart into lines.

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
    pub(crate) fn lines(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.began && !self.begin() {
            return;
        }
        if self.chunked {
            self.unframe();
        } else {
            self.text.append(&mut self.raw);
        }
        let mut at = 0;
        while let Some(length) = memchr(b'\n', &self.text[at..]) {
            each(self.text[at..at + length].trim_ascii_end());
            at += length + 1;
        }
        self.text.drain(..at);
    }

    /// Reads the head. Without it there are no lines yet.
    fn begin(&mut self) -> bool {
        let Some(end) = memmem::find(&self.raw, b"\r\n\r\n") else { return false };
        let head = String::from_utf8_lossy(&self.raw[..end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "no event stream: {head}");
        self.chunked = head.contains("transfer-encoding: chunked");
        self.began = true;
        self.raw.drain(..end + 4);
        true
    }

    fn unframe(&mut self) {
        let mut at = 0;
        while let Some(line) = memmem::find(&self.raw[at..], b"\r\n") {
            let size = std::str::from_utf8(&self.raw[at..at + line]).unwrap();
            let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
            let start = at + line + 2;
            let Some(chunk) = self.raw.get(start..start + size + 2) else { break };
            self.text.extend_from_slice(&chunk[..size]);
            at = start + size + 2;
        }
        self.raw.drain(..at);
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
                stream.lines(|line| lines.push(String::from_utf8_lossy(line).into_owned()));
            }
            assert_eq!(lines, ["id: 1", "data: {}", ""], "pieces of {size}");
        }
    }
}
