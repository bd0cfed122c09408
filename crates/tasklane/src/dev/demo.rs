//! The demo worker: handlers that take time, fail and report progress, and do nothing else.

use std::time::Duration;

use serde::Deserialize;
use tasklane_client::wire::Json;
use tasklane_client::worker::{Context, TaskError, Worker};
use tasklane_client::{Client, Error};

/// Tasks at once.
const CAPACITY: u32 = 8;

pub(super) fn worker(client: Client) -> Result<Worker, Error> {
    Worker::builder(client)
        .name("demo")
        .version(env!("CARGO_PKG_VERSION"))
        .capacity(CAPACITY)
        .drain_within(Duration::from_secs(10))
        .handle("echo", |_, payload: Json| async { Ok(payload) })
        .handle("email.send", send_email)
        .handle("image.resize", resize_image)
        .handle("invoice.charge", charge_invoice)
        .handle("report.build", build_report)
        .build()
}

#[derive(Debug, Deserialize)]
struct Email {
    to: String,
}

async fn send_email(_: Context, email: Email) -> Result<String, TaskError> {
    pass(150).await;
    Ok(format!("sent to {}", email.to))
}

#[derive(Debug, Deserialize)]
struct Image {
    frames: u32,
}

/// Slow enough to be watched, and to be cancelled.
async fn resize_image(context: Context, image: Image) -> Result<u32, TaskError> {
    for frame in 1..=image.frames {
        if context.is_cancelled() {
            return Err(TaskError::cancelled());
        }
        let percent = 100.0 * f64::from(frame) / f64::from(image.frames.max(1));
        context.progress(percent, &format!("frame {frame} of {}", image.frames));
        pass(400).await;
    }
    Ok(image.frames)
}

/// The payment provider is never there at first.
async fn charge_invoice(context: Context, _: Json) -> Result<&'static str, TaskError> {
    pass(80).await;
    match context.attempt() {
        1 => Err(TaskError::transient("the payment provider hung up").with_code("ECONNRESET")),
        _ => Ok("charged"),
    }
}

#[derive(Debug, Deserialize)]
struct Report {
    month: u32,
}

async fn build_report(_: Context, report: Report) -> Result<String, TaskError> {
    pass(900).await;
    match report.month {
        1..=12 => Ok(format!("report of month {}", report.month)),
        month => {
            let message = format!("there is no month {month}");
            Err(TaskError::permanent(message).with_code("no-such-month"))
        }
    }
}

async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
