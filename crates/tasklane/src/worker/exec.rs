//! `exec`: a command that was allowed, with the payload as its input.

use std::collections::BTreeMap;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::value::RawValue;
use tasklane_client::ErrorKind;
use tasklane_client::wire::Json;
use tasklane_client::worker::{Context, TaskError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Bytes of output that are a result; more is a failure.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of what it complains about, kept from the end.
const COMPLAINT_BYTES_MAX: usize = 4 * 1024;
/// What the names of the worker's own variables begin with.
const OWN_VARIABLES: &[u8] = b"TASKLANE_";
/// How long a command that should stop gets until it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// Runs commands by the names they were allowed under.
#[derive(Debug)]
pub(super) struct Runner {
    commands: BTreeMap<String, Vec<String>>,
}

/// The member of a payload that counts here; the rest is for the command.
#[derive(Debug, serde::Deserialize)]
struct Named {
    command: String,
}

impl Runner {
    pub(super) const fn new(commands: BTreeMap<String, Vec<String>>) -> Self {
        Self { commands }
    }

    pub(super) async fn run(
        self: Arc<Self>,
        context: Context,
        payload: Json,
    ) -> Result<Box<RawValue>, TaskError> {
        let named: Named = serde_json::from_slice(&payload.0).map_err(|_| {
            let message = "name the command: {\"command\": \"NAME\", …}";
            TaskError::permanent(message).with_code("invalid-payload")
        })?;
        let allowed = self.commands.get(&named.command).and_then(|command| command.split_first());
        let Some((program, arguments)) = allowed else {
            let message = "this worker was not allowed to run a command of that name";
            return Err(TaskError::permanent(message).with_code("unknown-command"));
        };
        let mut command = Command::new(program);
        // What is set for the worker, keys and passwords among it, is not for what it runs.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(OWN_VARIABLES) {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .env("TASKLANE_TASK_ID", context.id().to_string())
            .env("TASKLANE_ATTEMPT", context.attempt().to_string())
            .env("TASKLANE_FENCE", context.fence().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn().map_err(|error| {
            let message = format!("cannot run {program}: {error}");
            TaskError::permanent(message).with_code("cannot-run")
        })?;
        Running::new(child).finish(&context, payload).await
    }
}

/// A command under way, with all that it started.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Running {
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, group }
    }

    async fn finish(
        mut self,
        context: &Context,
        payload: Json,
    ) -> Result<Box<RawValue>, TaskError> {
        let (input, output, complaint) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let write = async {
            if let Some(mut input) = input {
                // A command need not read what it is given.
                let _ = input.write_all(&payload.0).await;
            }
        };
        let all = async {
            let (output, complaint, ()) =
                tokio::join!(gather(output), gather_end(complaint), write);
            (output, complaint)
        };
        tokio::pin!(all);
        let gathered = tokio::select! {
            gathered = &mut all => Some(gathered),
            _ = context.cancelled() => None,
        };
        let Some((output, complaint)) = gathered else {
            self.stop().await;
            return Err(TaskError::cancelled());
        };
        let status = tokio::select! {
            status = self.child.wait() => status,
            _ = context.cancelled() => {
                self.stop().await;
                return Err(TaskError::cancelled());
            }
        };
        let status = status.map_err(|error| TaskError::unknown(error.to_string()))?;
        outcome(status, output, &complaint)
    }

    /// Asks the whole group to end, then ends it.
    async fn stop(&mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may have gone already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    /// Whatever it started ends with it.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Everything that is written; `None` if that is too much.
async fn gather(stream: Option<impl AsyncRead + Unpin>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(stream) = stream else { return Some(bytes) };
    let most = OUTPUT_BYTES_MAX as u64 + 1;
    let _ = stream.take(most).read_to_end(&mut bytes).await;
    (bytes.len() <= OUTPUT_BYTES_MAX).then_some(bytes)
}

/// The end of what is written, all of which is read.
async fn gather_end(stream: Option<impl AsyncRead + Unpin>) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    let Some(mut stream) = stream else { return String::new() };
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(piece.get(..count).unwrap_or_default());
        let surplus = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// The codes are those of sysexits, which mail and many other programs use.
fn outcome(
    status: ExitStatus,
    output: Option<Vec<u8>>,
    complaint: &str,
) -> Result<Box<RawValue>, TaskError> {
    let Some(output) = output else {
        let message = format!("it wrote more than {OUTPUT_BYTES_MAX} bytes");
        return Err(TaskError::permanent(message).with_code("output-too-large"));
    };
    let (kind, code) = match status.code() {
        Some(0) => return result(&output),
        Some(code) => (kind_of(code), format!("exit-{code}")),
        None => (ErrorKind::Unknown, "signal".to_owned()),
    };
    let message = match complaint.is_empty() {
        true => format!("the command ended with {status}"),
        false => complaint.to_owned(),
    };
    Err(TaskError::new(kind, message).with_code(code))
}

const fn kind_of(code: i32) -> ErrorKind {
    match code {
        // Unavailable, try again.
        69 | 75 => ErrorKind::Transient,
        // Usage, data, input, user, host, permission, configuration; cannot be run.
        64..=68 | 76..=78 | 126 | 127 => ErrorKind::Permanent,
        _ => ErrorKind::Unknown,
    }
}

/// JSON as it is, anything else as a text.
fn result(output: &[u8]) -> Result<Box<RawValue>, TaskError> {
    let text = String::from_utf8_lossy(output);
    let text = text.trim();
    if text.is_empty() {
        return RawValue::from_string("null".to_owned()).map_err(Into::into);
    }
    match RawValue::from_string(text.to_owned()) {
        Ok(json) => Ok(json),
        Err(_) => serde_json::value::to_raw_value(text).map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_json_or_text() {
        let read = |text: &str| result(text.as_bytes()).unwrap().get().to_owned();
        assert_eq!(read("{\"a\": 1}\n"), "{\"a\": 1}");
        assert_eq!(read("plain \"words\"\n"), "\"plain \\\"words\\\"\"");
        assert_eq!(read(""), "null");
    }
}
