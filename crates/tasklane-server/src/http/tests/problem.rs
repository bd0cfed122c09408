//! What callers are told of errors.

use tasklane_core::QueueName;
use tasklane_store::SubmitProblem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::engine::tests::Faulty;
use crate::{Server, Settings};

/// Each error of a store, with what is told of it.
fn of_stores() -> Vec<(StoreError, u16, &'static str)> {
    let invalid = Invalid::new("queue", Problem::Characters);
    vec![
        (StoreError::Unavailable("why".into()), 503, "store-unavailable"),
        (StoreError::Overloaded("why".into()), 503, "overloaded"),
        (StoreError::Obstructed("why".into()), 503, "overloaded"),
        (StoreError::Full("why".into()), 503, "storage-full"),
        (StoreError::OutcomeUnknown("why".into()), 503, "outcome-unknown"),
        (StoreError::Corrupt("why".into()), 503, "store-unavailable"),
        (StoreError::TooSlow(5), 503, "overloaded"),
        (StoreError::Invalid(invalid), 422, "invalid-characters"),
        (StoreError::Locked("why".into()), 503, "store-unavailable"),
        (StoreError::Version("why".into()), 503, "store-unavailable"),
        (StoreError::Unsupported("why"), 501, "not-supported"),
        (StoreError::Closed, 503, "store-unavailable"),
    ]
}

/// The same for what else the engine may say.
fn of_the_engine() -> Vec<(EngineError, u16, &'static str)> {
    let submit = |problem| EngineError::Submit(SubmitRefusal { index: 0, problem });
    let full = |for_all| {
        let queue = QueueName::new("mail").unwrap();
        submit(SubmitProblem::QueueFull { queue, for_all })
    };
    let invalid = |problem| Invalid::new("weight", problem);
    let range = || invalid(Problem::OutOfRange { expected: "1 to 2" });
    let state = Refusal::InvalidState { current: StateName::Running };
    vec![
        (submit(SubmitProblem::Mismatch), 422, "idempotency-mismatch"),
        (full(false), 429, "queue-full"),
        (full(true), 503, "queue-full"),
        (submit(SubmitProblem::TooManyLanes), 422, "validation-failed"),
        (submit(SubmitProblem::Invalid(range())), 422, "out-of-range"),
        (EngineError::Worker(WorkerRefusal::Gone), 410, "worker-gone"),
        (EngineError::Worker(WorkerRefusal::Alive), 409, "invalid-state"),
        (EngineError::Task(Refusal::NotFound), 404, "not-found"),
        (EngineError::Task(Refusal::LeaseLost), 409, "lease-lost"),
        (EngineError::Task(state), 409, "invalid-state"),
        (EngineError::Task(Refusal::NotDue), 409, "invalid-state"),
        (EngineError::Task(Refusal::Invalid(range())), 422, "out-of-range"),
        (EngineError::Invalid(invalid(Problem::Empty)), 422, "validation-failed"),
        (EngineError::Configuration(vec!["x".into()]), 422, "invalid-configuration"),
        (EngineError::NoConfiguration, 501, "not-supported"),
        (EngineError::NotFound("worker"), 404, "not-found"),
        (EngineError::NotOwned, 403, "insufficient-scope"),
    ]
}

#[test]
fn each_error_has_its_status_and_type_and_says_when_to_come_back() {
    let stores = of_stores().into_iter();
    let stores = stores.map(|(error, status, word)| (EngineError::Store(error), status, word));
    for (error, status, word) in stores.chain(of_the_engine()) {
        let refused = Refused::from(error.clone());
        assert_eq!(refused.kind().word, word, "{error:?}");
        let response = refused.into_response();
        assert_eq!(response.status().as_u16(), status, "{error:?}");
        let comes_back = response.headers().get(header::RETRY_AFTER).map(HeaderValue::as_bytes);
        let expected = matches!(status, 429 | 503).then_some(&b"1"[..]);
        assert_eq!(comes_back, expected, "{error:?}");
    }
}

#[tokio::test]
async fn what_a_store_says_of_a_submission_is_told_over_http() {
    let store = Faulty::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = Server::new(store.clone(), Settings::default());
    let running = tokio::spawn(server.run(listener, stop.clone()));
    // A store says of a single call that it was in the way of others to nobody.
    let obstructed = |error: &StoreError| matches!(error, StoreError::Obstructed(_));
    for (error, status, word) in of_stores().into_iter().filter(|(error, ..)| !obstructed(error)) {
        *store.refuses.lock().unwrap() = Some(error.clone());
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\
            content-type: application/json\r\ncontent-length: 12\r\n\r\n{\"type\":\"a\"}";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{error:?}: {answer}");
        assert!(answer.contains(&format!("\"type\":\"{word}\"")), "{error:?}: {answer}");
        assert_eq!(answer.contains("\r\nretry-after: 1\r\n"), status == 503, "{answer}");
        assert!(status != 503 || !answer.contains("why"), "the inside stays there: {answer}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
