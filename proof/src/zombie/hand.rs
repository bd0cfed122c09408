//! A worker process in its parent's hand: started, told what to do, stopped and let go on.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::told::Told;
use crate::Failure;
use crate::process::stat;

/// Longer than a worker is silent while it is not stopped.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The process, ended with this.
pub(super) struct Hand {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Hand {
    pub(super) fn start(
        program: &Path,
        server: SocketAddr,
        sink: SocketAddr,
        queue: &str,
        pause: Duration,
    ) -> Result<Self, Failure> {
        let addresses = [server.to_string(), sink.to_string()];
        let mut child = Command::new(program)
            .args(["crash", "zombie-worker"])
            .args(addresses)
            .args([queue, &pause.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker has no pipes".into());
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let read = BufReader::new(output).lines().map_while(Result::ok);
            // Ends with the process, or with the hand that holds it.
            read.map(|line| sender.send(line)).all(|sent| sent.is_ok())
        });
        Ok(Self { child, input, lines })
    }

    /// Has it take one task.
    pub(super) fn take(&mut self, rounds: u32, status: &str) -> Result<(), Failure> {
        Ok(writeln!(self.input, "take {rounds} {status}")?)
    }

    /// The next line.
    pub(super) fn next(&self) -> Result<Told, Failure> {
        let line = self.lines.recv_timeout(PATIENCE).map_err(|_| "a worker fell silent")?;
        Told::parse(&line).ok_or_else(|| format!("a worker said {line:?}").into())
    }

    /// Stops it where it is, and waits until it stands still.
    pub(super) fn stop(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        let began = Instant::now();
        while !stat(self.child.id())?.starts_with('T') {
            if began.elapsed() > PATIENCE {
                return Err("a worker does not stop".into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Lets it go on.
    pub(super) fn wake(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(process.ok_or("a worker has no number")?, signal)?)
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
