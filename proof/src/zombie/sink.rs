//! An outside system that workers write to: it remembers the highest fence of each task, and
//! refuses lower ones.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Failure;

const TAKEN: &str = "taken";
const REFUSED: &str = "refused";

/// The system, as those who run it see it.
#[derive(Debug)]
pub(super) struct Sink {
    address: SocketAddr,
    highest: Arc<Highest>,
}

/// By task.
type Highest = Mutex<HashMap<String, u64>>;

impl Sink {
    /// Listens, until the process ends.
    pub(super) fn open() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, highest) = (listener.local_addr()?, Arc::new(Highest::default()));
        let shared = Arc::clone(&highest);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let highest = Arc::clone(&shared);
                // A writer that goes away ends its thread; nobody needs to know.
                std::thread::spawn(move || drop(serve(&stream, &highest)));
            }
        });
        Ok(Self { address, highest })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forgets a task that is over.
    pub(super) fn forget(&self, task: &str) {
        self.highest.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }
}

fn serve(stream: &TcpStream, highest: &Highest) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let (task, fence) = line.split_once(' ').ok_or("a write has a task and a fence")?;
        let answer = if is_taken(highest, task, fence.parse()?) { TAKEN } else { REFUSED };
        writer.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// The same fence may write again: it is the same holder.
fn is_taken(highest: &Highest, task: &str, fence: u64) -> bool {
    let mut highest = highest.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = highest.entry(task.to_owned()).or_default();
    let taken = fence >= *seen;
    *seen = fence.max(*seen);
    taken
}

/// A worker's line to the system.
#[derive(Debug)]
pub(super) struct Writer {
    stream: BufReader<TcpStream>,
}

impl Writer {
    pub(super) fn new(sink: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(sink)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Writes in the name of a task; whether it was taken.
    pub(super) fn write(&mut self, task: &str, fence: u64) -> Result<bool, Failure> {
        self.stream.get_mut().write_all(format!("{task} {fence}\n").as_bytes())?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer)?;
        match answer.trim_end() {
            TAKEN => Ok(true),
            REFUSED => Ok(false),
            other => Err(format!("the sink said {other:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_fence_is_refused_for_its_task_alone() -> Result<(), Failure> {
        let sink = Sink::open()?;
        let mut writer = Writer::new(sink.address())?;
        assert!(writer.write("a", 5)? && writer.write("a", 5)?);
        assert!(writer.write("a", 6)? && !writer.write("a", 5)?);
        assert!(writer.write("b", 1)?);
        sink.forget("a");
        assert!(writer.write("a", 1)?);
        Ok(())
    }
}
