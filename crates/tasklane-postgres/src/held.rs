//! Tasks that this server knows to be held, as they were when it last wrote them: who settles one need
//! not read it first. Another server may have changed it since, so what is written has to meet the
//! version that is known here.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use tasklane_core::{Command, Intent, TaskId};

use crate::session::Subject;

/// Tasks remembered at most.
const TASKS_MAX: usize = 20_000;

#[derive(Default)]
pub(crate) struct Held(Mutex<HashMap<TaskId, Subject>>);

impl Held {
    /// Remembers tasks that were written just now, if they are held and nobody waits for their key.
    pub(crate) fn note(&self, written: impl IntoIterator<Item = Subject>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for mut subject in written {
            let Some(lease) = subject.task.state.lease() else { continue };
            if subject.task.spec.ordering_key.is_some() {
                continue;
            }
            if held.len() >= TASKS_MAX {
                held.clear();
            }
            subject.guard = Some((subject.lease.version, lease.token));
            subject.payload = None;
            held.insert(subject.task.id, subject);
        }
    }

    /// Nothing is known to be held any more.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The task that a command settles, if it is known. It is not known twice: what could not be
    /// written is to be read.
    pub(crate) fn take(&self, command: &Command) -> Option<Subject> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let subject = held.remove(&command.task)?;
        let token = subject.task.state.lease().map(|lease| lease.token);
        match &command.intent {
            Intent::Settle(own, _) if Some(*own) == token => Some(subject),
            _ => None,
        }
    }
}
