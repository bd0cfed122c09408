//! The busiest calls, found without the router: it boxes, clones and matches for each of them.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::Method;
use tasklane_core::Verb;

use super::observe::Answer;
use super::problem::Refused;
use super::{report, task, worker};
use crate::engine::{Caller, Engine};

/// A call that goes past the router, to the handler that the router has for it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortcut {
    Submit,
    SubmitBatch,
    Poll,
    Result,
    Heartbeat,
}

const WORKERS: &str = "/internal/workers/";

impl Shortcut {
    #[cfg(test)]
    const ALL: [Self; 5] =
        [Self::Submit, Self::SubmitBatch, Self::Poll, Self::Result, Self::Heartbeat];

    /// The shortcut for a call, with the worker's id in its path.
    pub(super) fn find<'a>(method: &Method, path: &'a str) -> Option<(Self, &'a str)> {
        // What is escaped is left to the router.
        if method != Method::POST || path.contains('%') {
            return None;
        }
        match path {
            "/api/v1/tasks" => return Some((Self::Submit, "")),
            "/api/v1/tasks/batch" => return Some((Self::SubmitBatch, "")),
            _ => {}
        }
        let (id, verb) = path.strip_prefix(WORKERS)?.split_once('/')?;
        let shortcut = match verb {
            "poll" => Self::Poll,
            "result" => Self::Result,
            "heartbeat" => Self::Heartbeat,
            _ => return None,
        };
        (!id.is_empty()).then_some((shortcut, id))
    }

    /// The route as the router knows it.
    pub(super) const fn route(self) -> &'static str {
        match self {
            Self::Submit => "/api/v1/tasks",
            Self::SubmitBatch => "/api/v1/tasks/batch",
            Self::Poll => "/internal/workers/{id}/poll",
            Self::Result => "/internal/workers/{id}/result",
            Self::Heartbeat => "/internal/workers/{id}/heartbeat",
        }
    }

    /// What it needs.
    pub(super) const fn verb(self) -> Verb {
        match self {
            Self::Submit | Self::SubmitBatch => Verb::Submit,
            Self::Poll | Self::Result | Self::Heartbeat => Verb::Work,
        }
    }

    pub(super) async fn answer(
        self,
        engine: Arc<Engine>,
        caller: Caller,
        id: &str,
        request: Request,
    ) -> Result<Answer, Refused> {
        let engine = State(engine);
        let response = match self {
            Self::Submit => return task::submit(engine, caller, request).await,
            Self::Result => return report::result(engine, caller, Path(id.into()), request).await,
            Self::SubmitBatch => task::submit_batch(engine, caller, request).await,
            Self::Poll => worker::poll(engine, caller, Path(id.into()), request).await,
            Self::Heartbeat => worker::heartbeat(engine, caller, Path(id.into()), request).await,
        };
        response.map(Answer::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::permission::{self, Needs};

    #[test]
    fn every_shortcut_is_a_route() {
        let (_, document) = crate::http::routes();
        for shortcut in Shortcut::ALL {
            let path = document.paths.paths.get(shortcut.route()).unwrap();
            assert!(path.post.is_some(), "{shortcut:?}");
            let called = shortcut.route().replace("{id}", "7");
            let id = if called == shortcut.route() { "" } else { "7" };
            assert_eq!(Shortcut::find(&Method::POST, &called), Some((shortcut, id)));
            assert_eq!(Shortcut::find(&Method::GET, &called), None);
            let needs = permission::of(&Method::POST, shortcut.route());
            assert_eq!(needs, Needs::Verb(shortcut.verb()), "{shortcut:?}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_left_to_the_router() {
        for path in ["/", "/api/v1/tasks/", "/api/v1/tasks/7", "/internal/workers//poll"] {
            assert_eq!(Shortcut::find(&Method::POST, path), None, "{path}");
        }
        for path in ["/internal/workers/7/poll/", "/internal/workers/%37/poll"] {
            assert_eq!(Shortcut::find(&Method::POST, path), None, "{path}");
        }
    }
}
