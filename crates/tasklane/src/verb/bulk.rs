//! `submit --bulk`: many tasks, one in a line, in batches.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tasklane_client::{Client, Error, NewTask};

use crate::ending::{DONE, Outcome, usage};
use crate::show::{Format, Shown, age, line};

/// What a batch does not pass: small enough to answer soon, large enough to share one sync.
const BATCH_TASKS: usize = 1_000;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// No task is longer.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What was done.
#[derive(Debug, Default, Serialize)]
struct Done {
    /// Tasks that the server has.
    submitted: usize,
    /// Those that were there before.
    replayed: usize,
}

pub(super) async fn submit(client: &Client, from: &Path, shown: Shown) -> Outcome {
    let (mut lines, started) = (Lines::open(from)?, Instant::now());
    let (mut done, progress) = (Done::default(), progress(lines.bytes));
    loop {
        let batch = lines.batch().map_err(|error| after(&done, error))?;
        if batch.tasks.is_empty() {
            break;
        }
        let receipts = client.submit_batch(&batch.tasks).await;
        let receipts = receipts.map_err(|error| {
            progress.abandon();
            after(&done, batch.placed(error, &lines.name))
        })?;
        done.submitted += receipts.len();
        done.replayed += receipts.iter().filter(|receipt| receipt.replayed).count();
        progress.inc(batch.bytes as u64);
        progress.set_message(format!("{} tasks", done.submitted));
        if shown.format() == Format::Ndjson {
            receipts.iter().try_for_each(line)?;
        }
    }
    progress.finish_and_clear();
    let took = age(started.elapsed());
    if shown.format() == Format::Ndjson {
        eprintln!("{} in {took}", told(&done));
    } else {
        shown.one(&done, |_| format!("{} in {took}\n", told(&done)))?;
    }
    Ok(DONE)
}

fn told(done: &Done) -> String {
    let replayed = match done.replayed {
        0 => String::new(),
        count => format!(", {count} of them there before,"),
    };
    format!("{} tasks submitted{replayed}", done.submitted)
}

/// Says what is done before what went wrong: earlier batches stay.
fn after(done: &Done, error: anyhow::Error) -> anyhow::Error {
    if done.submitted > 0 {
        eprintln!("{} before this:", told(done));
    }
    error
}

/// How far it is, at a terminal.
fn progress(bytes: Option<u64>) -> ProgressBar {
    let (bar, form) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {percent:>3} %  {msg}  {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}  {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The lines of a file.
struct Lines {
    name: String,
    input: Box<dyn BufRead>,
    /// How many there are, where that is known.
    bytes: Option<u64>,
    /// The last line that was read, from 1.
    number: usize,
}

/// Tasks that are submitted together.
#[derive(Default)]
struct Batch {
    tasks: Vec<NewTask>,
    /// In which line each of them stands.
    numbers: Vec<usize>,
    bytes: usize,
}

impl Lines {
    fn open(from: &Path) -> anyhow::Result<Self> {
        let name = from.display().to_string();
        if name == "-" {
            let (name, input) = ("standard input".to_owned(), Box::new(BufReader::new(stdin())));
            return Ok(Self { name, input, bytes: None, number: 0 });
        }
        let file = File::open(from).with_context(|| format!("cannot read {name}"))?;
        let about = file.metadata().with_context(|| format!("cannot read {name}"))?;
        let bytes = about.is_file().then_some(about.len());
        Ok(Self { name, input: Box::new(BufReader::new(file)), bytes, number: 0 })
    }

    /// The next tasks; none at the end.
    fn batch(&mut self) -> anyhow::Result<Batch> {
        let mut batch = Batch::default();
        while batch.tasks.len() < BATCH_TASKS && batch.bytes < BATCH_BYTES {
            let mut line = String::new();
            let read = self.input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
            let read = read.with_context(|| format!("cannot read {}", self.name))?;
            if read == 0 {
                break;
            }
            self.number += 1;
            batch.bytes += read;
            if line.trim().is_empty() {
                continue;
            }
            let task = NewTask::from_json(&line)
                .map_err(|error| usage(format!("{}:{}: {error}", self.name, self.number)))?;
            batch.tasks.push(task);
            batch.numbers.push(self.number);
        }
        Ok(batch)
    }
}

impl Batch {
    /// Which line a refusal is about.
    fn placed(&self, error: Error, from: &str) -> anyhow::Error {
        let pointers = error.problem().into_iter().flat_map(|problem| &problem.errors);
        let indices = pointers.filter_map(|error| {
            let rest = error.pointer.strip_prefix("/tasks/")?;
            rest.split('/').next()?.parse::<usize>().ok()
        });
        for number in indices.filter_map(|index| self.numbers.get(index)) {
            eprintln!("{from}:{number}: this line is refused");
        }
        error.into()
    }
}
