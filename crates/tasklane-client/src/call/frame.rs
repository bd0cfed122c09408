//! Server-sent events, taken apart.

use bytes::BytesMut;

use super::error::Error;
use crate::limits::EVENT_BYTES_MAX;

/// What has come and is not a whole event yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    text: BytesMut,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// The data of the next whole event. Comments, which only keep the line open, are passed over;
    /// id and kind are in the data too.
    pub(super) fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") else {
                return match self.text.len() > EVENT_BYTES_MAX {
                    true => Err(Error::Unexpected("an event is too long".into())),
                    false => Ok(None),
                };
            };
            let event = self.text.split_to(end + 2);
            let event = std::str::from_utf8(&event)
                .map_err(|_| Error::Unexpected("an event is no text".into()))?;
            let data: String =
                event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let text = ": nothing new\n\nid: 1-2\nevent: a\ndata: {\"x\":1}\n\nretry: 5\n\ndata: 2\n\n";
        for size in 1..=text.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                frames.push(piece);
                while let Some(data) = frames.next().unwrap() {
                    seen.push(data);
                }
            }
            assert_eq!(seen, ["{\"x\":1}", "2"], "{size}");
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept() {
        let mut frames = Frames::default();
        frames.push(&vec![b'x'; EVENT_BYTES_MAX + 1]);
        assert!(frames.next().is_err());
    }
}
