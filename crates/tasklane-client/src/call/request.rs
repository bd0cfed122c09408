//! One call as it will be sent.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde::Serialize;

use super::error::Error;
use crate::wire::{StateWord, TaskFilter};

/// Whether a call may be sent a second time when nobody knows whether the first arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Twice is as good as once.
    Safe,
    /// Only while it certainly did not arrive.
    Unsafe,
}

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    pub(super) body: Option<Bytes>,
    pub(super) repeat: Repeat,
    /// How long the server is asked to wait.
    pub(super) waits: Duration,
    pub(super) header: Option<(&'static str, String)>,
}

impl Call {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, Repeat::Safe)
    }

    pub(super) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path, Repeat::Unsafe)
    }

    pub(super) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path, Repeat::Safe)
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, Repeat::Unsafe)
    }

    fn new(method: Method, path: impl Into<String>, repeat: Repeat) -> Self {
        let (target, waits) = (path.into(), Duration::ZERO);
        Self { method, target, body: None, repeat, waits, header: None }
    }

    /// Twice is as good as once.
    pub(super) fn safe(mut self) -> Self {
        self.repeat = Repeat::Safe;
        self
    }

    pub(super) fn waits(mut self, time: Duration) -> Self {
        self.waits = time;
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: String) -> Self {
        self.header = Some((name, value));
        self
    }

    pub(super) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| Error::unwritable(&error))?;
        self.body = Some(bytes.into());
        Ok(self)
    }

    /// Adds a parameter.
    pub(super) fn with(mut self, name: &str, value: impl Display) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        escape(&mut self.target, name);
        self.target.push('=');
        escape(&mut self.target, &value.to_string());
        self
    }

    /// Adds a parameter if there is one.
    pub(super) fn with_some(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a flag if it is up.
    pub(super) fn with_flag(self, name: &str, flag: bool) -> Self {
        self.with_some(name, flag.then_some("true"))
    }

    /// Adds names, separated by commas, if there are any.
    pub(super) fn with_all<T: Display>(self, name: &str, values: &[T]) -> Self {
        let values: Vec<_> = values.iter().map(ToString::to_string).collect();
        self.with_some(name, (!values.is_empty()).then(|| values.join(",")))
    }

    /// Adds the parameters that choose tasks.
    pub(super) fn with_filter(self, filter: &TaskFilter) -> Self {
        let words = |states: &Vec<StateWord>| {
            states.iter().map(|state| state.0.as_str()).collect::<Vec<_>>().join(",")
        };
        let mut call = self
            .with_some("state", filter.states.as_ref().map(words))
            .with_some("type", filter.task_type.as_ref())
            .with_some("queue", filter.queue.as_ref())
            .with_some("priority", filter.priority.map(|priority| priority.0.as_str()))
            .with_some("worker_id", filter.worker_id.map(|worker| worker.0))
            .with_some("created_after", filter.created_after)
            .with_some("created_before", filter.created_before)
            .with_some("error", filter.error.as_ref());
        for (name, value) in filter.metadata.iter().flatten() {
            call = call.with(&format!("metadata.{name}"), value);
        }
        call
    }
}

/// A name as one part of a path.
pub(super) fn part(name: impl Display) -> String {
    let mut escaped = String::new();
    escape(&mut escaped, &name.to_string());
    escaped
}

fn escape(target: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            target.push(char::from(byte));
        } else {
            // Writing into memory does not fail.
            let _ = write!(target, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PriorityWord;
    use tasklane_core::{Priority, StateName};

    #[test]
    fn whatever_a_parameter_holds_arrives_as_it_was_meant() {
        let call = Call::get("/x").with("a b", "c&d=é").with_flag("no", false).with("n", 1);
        assert_eq!(call.target, "/x?a%20b=c%26d%3D%C3%A9&n=1");
        assert_eq!(part("mail/out.1"), "mail%2Fout.1");
    }

    #[test]
    fn a_filter_becomes_parameters() {
        let filter = TaskFilter {
            states: Some(vec![StateWord(StateName::Pending), StateWord(StateName::Running)]),
            priority: Some(PriorityWord(Priority::High)),
            metadata: Some([("user".into(), "7".into())].into()),
            ..TaskFilter::default()
        };
        let call = Call::get("/x").with_filter(&filter);
        assert_eq!(call.target, "/x?state=pending%2Crunning&priority=high&metadata.user=7");
    }
}
