//! Somebody who follows all completions from the beginning.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::load::Load;
use crate::Failure;

/// The server says something at least this often, if only that there is nothing new.
const SILENCE_MAX: Duration = Duration::from_secs(60);

impl Load {
    /// Follows until `done`. What is closed is opened again where it was left.
    pub(super) fn follow(&self, done: &AtomicBool) -> Result<(), Failure> {
        let mut cursor = None;
        while !done.load(Ordering::Relaxed) {
            self.follow_from(&mut cursor, done)?;
        }
        Ok(())
    }

    fn follow_from(&self, cursor: &mut Option<String>, done: &AtomicBool) -> Result<(), Failure> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let resume =
            cursor.as_ref().map_or(String::new(), |seen| format!("last-event-id: {seen}\r\n"));
        // Of the older version, whose answers come in one piece.
        let request = format!(
            "GET /api/v1/events?kinds=task.completed HTTP/1.0\r\nhost: proof\r\n{resume}\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let (mut lines, mut line) = (BufReader::with_capacity(64 * 1024, stream), String::new());
        lines.read_line(&mut line)?;
        if !line.contains(" 200 ") {
            return Err(format!("the follower got {line:?}").into());
        }
        while !done.load(Ordering::Relaxed) {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                break;
            }
            if let Some(seen) = line.strip_prefix("id: ") {
                *cursor = Some(seen.trim_end().to_owned());
            } else if line.starts_with("event: task.completed") {
                self.counts.told.fetch_add(1, Ordering::Relaxed);
            } else if line.starts_with("event: system.gap") {
                self.counts.gaps.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
