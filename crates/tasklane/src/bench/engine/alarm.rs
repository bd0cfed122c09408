//! Wakes who waits for sockets at a moment. The system's own time-out there counts in whole
//! milliseconds, rounded up: longer than a server takes to answer.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use mio::Waker;

/// Moments that are so near to each other are one.
const NEAR: Duration = Duration::from_micros(50);

pub(super) struct Alarm {
    moments: Sender<Instant>,
    /// The last that was set.
    set: Option<Instant>,
}

impl Alarm {
    /// Its thread ends with it.
    pub(super) fn new(waker: Waker) -> Self {
        let (moments, set) = channel::<Instant>();
        std::thread::spawn(move || {
            for moment in set {
                std::thread::sleep(moment.saturating_duration_since(Instant::now()));
                // Nobody to wake: the run is over.
                let _ = waker.wake();
            }
        });
        Self { moments, set: None }
    }

    /// Wakes at that moment, unless it wakes just before it anyway.
    pub(super) fn set(&mut self, moment: Instant) {
        let is_set = self.set.is_some_and(|set| set <= moment + NEAR && set > Instant::now());
        if !is_set && self.moments.send(moment).is_ok() {
            self.set = Some(moment);
        }
    }
}
