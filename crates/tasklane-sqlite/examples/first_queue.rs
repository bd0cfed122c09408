//! A queue, a worker and a task in one program: `cargo run -p tasklane-sqlite --example first_queue`.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use tasklane_core::{NewTask, Priority, TaskType};
use tasklane_sqlite::Queue;
use tasklane_sqlite::queue::TaskError;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", send(Path::new("tasklane-data"))?);
    Ok(())
}

pub(crate) fn send(folder: &Path) -> Result<String, Box<dyn Error>> {
    let queue = Queue::open(folder)?;

    let worker = queue
        .worker()
        .handle("email.send", |context, payload| {
            println!("attempt {}: {}", context.attempt(), String::from_utf8_lossy(payload));
            match context.attempt() {
                1 => Err(TaskError::transient("the mail server hung up")), // tried again, after a backoff
                _ => Ok(b"sent".to_vec()),
            }
        })
        .start()?;

    let task = NewTask::new(TaskType::new("email.send")?, "to: ada");
    let id = queue.submit(NewTask { priority: Some(Priority::High), ..task })?.id; // on disk from here
    let email = queue.wait(id, Duration::from_secs(10))?.task;
    worker.stop(Duration::from_secs(1));
    Ok(format!("{} after {} attempts", email.state.name(), email.counts.attempts))
}
