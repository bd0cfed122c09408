//! Calls, written into the history on their way: through the pipe to a child, or straight to a
//! store that the parent has opened itself.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tasklane_store::Store;

use crate::Failure;
use crate::history::{Answer, History, Operation, Words};
use crate::perform::perform;
use crate::place::Place;

/// The child is gone: the outcome of the call is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// Somewhere to make calls.
pub(super) trait Caller: Sync {
    /// Makes a call, with its intent in the history before and its answer in the history after.
    fn call(&self, connection: usize, operation: &Operation) -> Result<Answer, Gone>;
}

/// The pipe to a child.
pub(super) struct Line<'a> {
    history: &'a Mutex<History>,
    input: Mutex<ChildStdin>,
    /// Calls that wait for an answer; none once no more answers can come.
    waiting: Mutex<Option<HashMap<u64, Sender<Answer>>>>,
}

impl<'a> Line<'a> {
    pub(super) fn new(history: &'a Mutex<History>, input: ChildStdin) -> Self {
        Self { history, input: Mutex::new(input), waiting: Mutex::new(Some(HashMap::new())) }
    }

    /// Reads answers until the child is gone. What it had written before counts; a line that it
    /// did not finish does not.
    pub(super) fn read_answers(&self, output: impl BufRead) -> Result<(), Failure> {
        let read = self.read_until_gone(output);
        guard(&self.waiting).take();
        read
    }

    fn read_until_gone(&self, mut output: impl BufRead) -> Result<(), Failure> {
        let mut line = String::new();
        loop {
            line.clear();
            output.read_line(&mut line)?;
            let Some(whole) = line.strip_suffix('\n') else { return Ok(()) };
            let mut words = Words::new(whole);
            let call = words.value()?;
            let answer: Answer = words.remainder().parse()?;
            guard(self.history).answered(call, &answer)?;
            let waiting = guard(&self.waiting).as_mut().and_then(|waiting| waiting.remove(&call));
            if let Some(sender) = waiting {
                // Its caller waits for it and for nothing else.
                let _ = sender.send(answer);
            }
        }
    }
}

impl Caller for Line<'_> {
    fn call(&self, connection: usize, operation: &Operation) -> Result<Answer, Gone> {
        let (sender, answer) = channel();
        let call = guard(self.history).intend(operation).map_err(|_| Gone)?;
        guard(&self.waiting).as_mut().ok_or(Gone)?.insert(call, sender);
        let line = format!("{connection} {call} {operation}\n");
        guard(&self.input).write_all(line.as_bytes()).map_err(|_| Gone)?;
        answer.recv().map_err(|_| Gone)
    }
}

/// A store in the parent's own hands.
pub(super) struct Direct<'a> {
    pub(super) place: &'a Place,
    pub(super) history: &'a Mutex<History>,
    pub(super) store: &'a Arc<dyn Store>,
}

impl Caller for Direct<'_> {
    fn call(&self, _: usize, operation: &Operation) -> Result<Answer, Gone> {
        let call = guard(self.history).intend(operation).map_err(|_| Gone)?;
        let answer = perform(self.place, self.store, operation);
        guard(self.history).answered(call, &answer).map_err(|_| Gone)?;
        Ok(answer)
    }
}

/// A panic elsewhere does not make a history wrong: each line is written at once.
pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
