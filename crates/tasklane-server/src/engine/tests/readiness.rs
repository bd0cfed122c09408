//! When a server is ready.

use std::sync::atomic::Ordering;

use super::faulty::Faulty;
use crate::engine::{Engine, NotReady};
use crate::settings::Settings;

#[tokio::test]
async fn trouble_of_the_store_and_the_end_are_seen_at_once() {
    let store = Faulty::new();
    let engine = Engine::new(store.clone(), Settings::default());
    assert_eq!(engine.ready().await, Ok(()));
    store.is_troubled.store(true, Ordering::Relaxed);
    assert!(matches!(engine.ready().await, Err(NotReady::Store(_))));
    store.is_troubled.store(false, Ordering::Relaxed);
    assert_eq!(engine.ready().await, Ok(()));
    engine.drain();
    assert_eq!(engine.ready().await, Err(NotReady::Draining));
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_ready() {
    let store = Faulty::new();
    let engine = Engine::new(store.clone(), Settings::default());
    store.fails.store(true, Ordering::Relaxed);
    assert!(matches!(engine.ready().await, Err(NotReady::Store(_))));
}
