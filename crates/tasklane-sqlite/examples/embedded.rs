//! The queue inside a program: priorities, a retry, two cancellations, and what is left to see.
//!
//! `cargo run -p tasklane-sqlite --example embedded [folder]`: without a folder, a temporary one.

use std::error::Error;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use tasklane_core::{NewTask, Priority, StateName, TaskType};
use tasklane_sqlite::Queue;
use tasklane_sqlite::queue::TaskError;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args_os().nth(1) {
        Some(folder) => run(Path::new(&folder)),
        None => run(tempfile::tempdir()?.path()),
    }
}

/// What the example shows.
pub(crate) fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let queue = Queue::builder().depth_limit(1_000).open(folder)?;
    println!("open in {} ({})", folder.display(), queue.status().durability.as_str());

    // Submitted in the wrong order; one handler at a time, so that the right one shows.
    let mut reports = Vec::new();
    for priority in [Priority::Low, Priority::Normal, Priority::Critical, Priority::High] {
        let task = NewTask::new(TaskType::new("report.render")?, priority.as_str());
        let submitted = queue.submit(NewTask { priority: Some(priority), ..task })?;
        println!("submitted a {priority} report, now {}", submitted.state);
        reports.push(submitted.id);
    }

    let (started, is_started) = mpsc::sync_channel(1);
    let worker = queue
        .worker()
        .handle("report.render", |context, payload| {
            println!("  report: {} priority", String::from_utf8_lossy(payload));
            context.progress(100.0, "rendered")?;
            Ok(b"report.pdf".to_vec())
        })
        .handle("email.send", |context, _| {
            println!("  email: attempt {}", context.attempt());
            match context.attempt() {
                1 => Err(TaskError::transient("the mail server hung up")
                    .retry_after(Duration::from_millis(100))),
                _ => Ok(b"sent".to_vec()),
            }
        })
        .handle("video.encode", move |context, _| {
            started.send(())?;
            println!("  video: encoding for ten seconds, unless somebody minds");
            match context.wait_cancelled(Duration::from_secs(10)) {
                true => Err(TaskError::cancelled()),
                false => Ok(Vec::new()),
            }
        })
        .start()?;

    let patience = Duration::from_secs(10);
    for id in reports {
        queue.wait(id, patience)?;
    }

    let email = queue.submit(NewTask::new(TaskType::new("email.send")?, "to: ada"))?;
    let email = queue.wait(email.id, patience)?;
    let result = email.result.unwrap_or_default();
    println!(
        "email: {} after {} attempts, result {:?}",
        email.task.state.name(),
        email.task.counts.attempts,
        String::from_utf8_lossy(&result)
    );

    let running = queue.submit(NewTask::new(TaskType::new("video.encode")?, "cats.mov"))?.id;
    let waiting = queue.submit(NewTask::new(TaskType::new("video.encode")?, "dogs.mov"))?.id;
    is_started.recv()?;
    println!("cancel one that waits: {:?}", queue.cancel(waiting)?);
    println!("cancel one that runs: {:?}", queue.cancel(running)?);
    println!("video: {}", queue.wait(running, patience)?.task.state.name());

    let stopped = worker.stop(Duration::from_secs(1));
    println!("worker stopped, {} tasks given back", stopped.released);
    let stats = queue.stats()?;
    for state in StateName::ALL {
        match stats.total(state) {
            0 => {}
            count => println!("{count} {state}"),
        }
    }
    Ok(())
}
