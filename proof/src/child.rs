//! The process that is killed: a store behind a pipe.
//!
//! A line in is `<connection> <call> <operation>`, a line out `<call> <answer>`. Calls of one
//! connection are made one after the other, those of different connections at the same time.
//! Maintenance runs all the while, as in a server.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tasklane_store::conformance::block_on;
use tasklane_store::{Store, maintain};

use crate::Failure;
use crate::history::{Operation, Words};
use crate::perform::perform;
use crate::place::Place;

/// What the child says once the store is open.
pub const READY: &str = "ready";

/// How often maintenance looks.
const MAINTAIN_EVERY: Duration = Duration::from_millis(4);

/// Serves a store until standard input ends, or until it is killed.
pub fn serve(place: &Place) -> Result<(), Failure> {
    end_with_the_first_panic();
    let store = place.open()?;
    say(READY)?;
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_maintaining(place, &store, &stopped));
        let mut connections: HashMap<usize, Sender<(u64, Operation)>> = HashMap::new();
        let served = std::io::stdin().lock().lines().try_for_each(|line| {
            let line = line?;
            let mut words = Words::new(&line);
            let (connection, call) = (words.value()?, words.value()?);
            let operation = words.remainder().parse()?;
            let sender = connections.entry(connection).or_insert_with(|| {
                let (sender, receiver) = channel();
                let store = &store;
                scope.spawn(move || serve_connection(place, store, &receiver));
                sender
            });
            sender.send((call, operation))?;
            Ok::<(), Failure>(())
        });
        stopped.store(true, Ordering::Relaxed);
        served
    })
}

/// A panic on any thread, the store's own included, must not pass for a call without an answer.
pub(crate) fn end_with_the_first_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::exit(4);
    }));
}

fn serve_connection(place: &Place, store: &Arc<dyn Store>, calls: &Receiver<(u64, Operation)>) {
    for (call, operation) in calls {
        let answer = perform(place, store, &operation);
        if say(&format!("{call} {answer}")).is_err() {
            // Nobody reads any more.
            return;
        }
    }
}

fn keep_maintaining(place: &Place, store: &Arc<dyn Store>, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Relaxed) {
        if let Err(error) = block_on(maintain(&**store))
            && !place.is_away(&error)
        {
            eprintln!("maintenance failed: {error}");
            // The parent takes a child that ends by itself for a violation.
            std::process::exit(3);
        }
        std::thread::sleep(MAINTAIN_EVERY);
    }
}

/// A whole line at once; the parent takes a line without its end for none.
fn say(line: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{line}\n").as_bytes())?;
    output.flush()
}
