//! Handlers by the type of tasks they take.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use tasklane_core::{ErrorKind, TaskError};

use super::context::Context;
use super::outcome::Outcome;
use crate::wire::Json;

type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Handler = Arc<dyn Fn(Context, Json) -> Running + Send + Sync>;

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(super) struct Handlers(HashMap<Box<str>, Handler>);

impl Handlers {
    /// Adds a handler whose payloads and results have types of their own.
    pub(super) fn insert<P, R, F, H>(&mut self, task_type: &str, handler: H)
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize,
        F: Future<Output = Result<R, TaskError>> + Send + 'static,
        H: Fn(Context, P) -> F + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let run = move |context: Context, payload: Json| -> Running {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let payload: P = match serde_json::from_slice(&payload.0) {
                    Ok(payload) => payload,
                    Err(error) => return unreadable(&error),
                };
                match handler(context, payload).await {
                    Ok(result) => written(&result),
                    Err(error) => error.into(),
                }
            })
        };
        self.0.insert(task_type.into(), Arc::new(run));
    }

    /// The handler of a type: its own, or that of the longest beginning with `*`.
    pub(super) fn find(&self, task_type: &str) -> Option<Handler> {
        let fits = |pattern: &str| {
            pattern.strip_suffix('*').is_some_and(|beginning| task_type.starts_with(beginning))
        };
        let beginnings = || self.0.iter().filter(|(pattern, _)| fits(pattern));
        let longest = || beginnings().max_by_key(|(pattern, _)| pattern.len());
        let found = self.0.get(task_type).or_else(|| longest().map(|(_, handler)| handler));
        found.cloned()
    }

    pub(super) fn types(&self) -> Vec<Box<str>> {
        let mut types: Vec<_> = self.0.keys().cloned().collect();
        types.sort();
        types
    }
}

/// Sending the same payload again would not help.
fn unreadable(error: &serde_json::Error) -> Outcome {
    let message = format!("the payload is not what the handler takes: {error}");
    TaskError::permanent(message).with_code("invalid-payload").into()
}

fn written(result: &impl Serialize) -> Outcome {
    match to_raw_value(result) {
        Ok(result) => Outcome::Completed(result),
        Err(error) => {
            let message = format!("the result cannot be written as JSON: {error}");
            Outcome::failed(ErrorKind::Bug, &message)
        }
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handler_that_fits_best_is_found() {
        let mut handlers = Handlers::default();
        for pattern in ["mail.send", "mail.*", "*"] {
            handlers.insert(pattern, |_: Context, (): ()| async { Ok(()) });
        }
        let found = |task_type: &str| {
            let found = handlers.find(task_type).unwrap();
            let (pattern, _) = handlers.0.iter().find(|(_, own)| Arc::ptr_eq(own, &found)).unwrap();
            pattern.to_string()
        };
        assert_eq!(found("mail.send"), "mail.send");
        assert_eq!(found("mail.receive"), "mail.*");
        assert_eq!(found("video"), "*");
        assert!(Handlers::default().find("video").is_none());
    }
}
