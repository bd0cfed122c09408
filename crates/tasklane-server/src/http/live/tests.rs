//! A reader on the model, in time that passes by itself.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tasklane_core::lifecycle::Rules;
use tasklane_core::{QueueName, QueueSettings};
use tasklane_store::Store;
use tasklane_store::conformance::{ManualClock, NaiveStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::filter::Wish;
use super::frame::Frame;
use super::kind::QUEUE_DEPTH;
use super::reader::{Ending, Next, Reader};
use crate::engine::{Access, Bulletin, Engine, Through, Told};
use crate::http::query::Parameters;
use crate::limits::{READER_CURSOR_EVERY, READER_KEEP_ALIVE, READER_PAGE};
use crate::settings::Settings;

struct Scene {
    engine: Arc<Engine>,
    store: Arc<NaiveStore>,
    stop: CancellationToken,
}

impl Scene {
    fn new(settings: Settings) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(NaiveStore::new(clock, Rules::default(), 1));
        let engine = Engine::new(store.clone(), settings);
        let stop = CancellationToken::new();
        let (following, end) = (Arc::clone(&engine), stop.clone());
        tokio::spawn(async move { following.follow(end).await });
        Self { engine, store, stop }
    }

    async fn reader(&self, query: &str) -> Reader {
        let wish = wish(query);
        let reader =
            Reader::new(Arc::clone(&self.engine), Access::Anyone, wish, Through::Stream).await;
        let mut reader = reader.unwrap();
        assert_eq!(frames(reader.next().await)[0].kind, "system.hello");
        reader
    }

    /// Readers are told of so many queues, of which only the first has changed.
    fn tell(&self, number: u64, queues: usize) {
        let told = |index: usize| Told {
            is_news: index == 0,
            kind: QUEUE_DEPTH,
            queue: Some(QueueName::new(format!("q{index}")).unwrap()),
            text: index.to_string().into(),
        };
        let entries = (0..queues).map(told).collect();
        self.engine.bulletin().send_replace(Arc::new(Bulletin { number, entries }));
    }

    /// Something happens.
    async fn pause(&self, queue: &str) {
        let settings = QueueSettings { paused: true, ..QueueSettings::default() };
        self.store.configure(QueueName::new(queue).unwrap(), settings).await.unwrap();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn wish(query: &str) -> Wish {
    Wish::read(&Parameters::read(query).unwrap(), &HeaderMap::new()).unwrap()
}

fn frames(next: Next) -> Vec<Frame> {
    match next {
        Next::Frames(frames) => frames,
        Next::Quiet => panic!("nothing came"),
        Next::End(frame, _) => panic!("it ended: {frame:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_gets_nothing_is_told_where_it_is() {
    let scene = Scene::new(Settings::default());
    let mut reader = scene.reader("kinds=task.*").await;
    let begun = Instant::now();
    for n in 0..5 {
        scene.pause(&format!("q{n}")).await;
    }
    let told = frames(reader.next().await);
    assert_eq!((told.len(), told[0].kind), (1, "system.cursor"));
    assert_eq!(told[0].cursor.unwrap().position.0, 5);
    assert!(begun.elapsed() >= READER_CURSOR_EVERY, "{:?}", begun.elapsed());
    // Nothing was passed over since: only a sign of life.
    assert!(matches!(reader.next().await, Next::Quiet));
    assert!(begun.elapsed() >= READER_CURSOR_EVERY + READER_KEEP_ALIVE);
}

#[tokio::test(start_paused = true)]
async fn what_passes_by_without_end_does_not_keep_it_from_being_told() {
    let scene = Scene::new(Settings::default());
    let mut reader = scene.reader("kinds=task.*").await;
    let events = async {
        for n in 0u64.. {
            scene.pause(&format!("q{n}")).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let begun = Instant::now();
    let told = tokio::select! {
        next = reader.next() => frames(next),
        () = events => Vec::new(),
    };
    assert_eq!(told[0].kind, "system.cursor");
    assert!(begun.elapsed() < READER_CURSOR_EVERY * 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_loses_nothing() {
    let scene = Scene::new(Settings::default());
    let mut reader = scene.reader("").await;
    let mut seen = Vec::new();
    for n in 0..50u64 {
        scene.pause(&format!("q{n}")).await;
        let patience = Duration::from_millis(n % 5);
        if let Ok(next) = tokio::time::timeout(patience, reader.next()).await {
            seen.extend(frames(next).into_iter().map(|frame| frame.cursor.unwrap().position.0));
        }
    }
    while seen.len() < 50 {
        let next = frames(reader.next().await);
        seen.extend(next.into_iter().map(|frame| frame.cursor.unwrap().position.0));
    }
    assert_eq!(seen, (1..=50).collect::<Vec<u64>>());
}

#[tokio::test(start_paused = true)]
async fn only_who_has_once_kept_up_can_be_too_slow() {
    let settings = Settings { slow_reader_behind: 3, ..Settings::default() };
    let scene = Scene::new(settings);
    let mut live = scene.reader("").await;
    scene.pause("first").await;
    assert_eq!(frames(live.next().await).len(), 1);
    for n in 0..600 {
        scene.pause(&format!("q{n}")).await;
    }
    scene.engine.feed().ahead_by(tasklane_store::Cursor::OLDEST, 600).await;
    assert!(matches!(live.next().await, Next::End(_, Ending::Slow)));
    let wish = wish(&format!("cursor={}", tasklane_store::Cursor::OLDEST));
    let late = Reader::new(Arc::clone(&scene.engine), Access::Anyone, wish, Through::Stream).await;
    let mut late = late.unwrap();
    let mut count = 0;
    while count < 601 {
        count += frames(late.next().await).len();
    }
}

#[tokio::test(start_paused = true)]
async fn many_queues_are_told_a_part_at_a_time_and_each_once() {
    let scene = Scene::new(Settings::default());
    let mut reader = scene.reader("kinds=queue.depth").await;
    let queues = READER_PAGE * 2 + 100;
    scene.tell(1, queues);
    let mut told = frames(reader.next().await);
    assert_eq!(told.len(), READER_PAGE);
    // The next one does not end this one.
    scene.tell(2, queues);
    for part in [READER_PAGE, 100, 1] {
        let more = frames(reader.next().await);
        assert_eq!(more.len(), part);
        told.extend(more);
    }
    let last = told.pop().unwrap();
    assert_eq!(&last.text[..], b"0", "of the second only what is new");
    let texts: Vec<_> = told.iter().map(|frame| frame.text.clone()).collect();
    let wanted: Vec<bytes::Bytes> = (0..queues).map(|index| index.to_string().into()).collect();
    assert_eq!(texts, wanted);
}
