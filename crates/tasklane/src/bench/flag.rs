//! Flags of `tasklane bench`.

use clap::{Args, ValueEnum};

use crate::connection::Connection;

const EXAMPLES: &str = "\
Examples:
  tasklane bench submit --connections 64 --seconds 10
  tasklane bench submit --batch 1000 --priority high=1,normal=3
  tasklane bench drain --workers 16 --batch 10 --tasks 100000
  tasklane bench latency --rate 200 -o json
  tasklane bench clean

Tasks go to a queue of their own. What a run leaves there it says at its end; --clean cancels what
still waits. Refusals under load are counted and no failure; wrong answers make the exit code 1.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Which load to make.
    #[arg(value_enum)]
    pub(super) scenario: Scenario,
    #[command(flatten)]
    pub(super) server: Connection,
    /// The queue that tasks go to.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    pub(super) queue: String,
    /// Connections that submit: 64, 4 for large batches, 16 beside workers, 256 for an overload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) connections: Option<u32>,
    /// Workers, each with a connection: 4 for batches of 100, 16 for 10, 64 for 1; 8 beside
    /// submissions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) workers: Option<u32>,
    /// Tasks in a call: 1 for submit, 100 for drain, 10 for end-to-end, 1,000 for overload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) batch: Option<u32>,
    /// End after so many tasks; a drain drains 200,000 if absent.
    #[arg(long, value_name = "N")]
    pub(super) tasks: Option<u64>,
    /// How long to go on.
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    pub(super) seconds: f64,
    /// Seconds before counting begins.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub(super) warm_up: f64,
    /// Of latency: tasks a second, sent by the clock whatever the answers do.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rate: u32,
    /// Of latency: also read live events, and measure until a task's event comes.
    #[arg(long)]
    pub(super) events: bool,
    /// Of latency with --events: read them from a WebSocket instead of server-sent events.
    #[arg(long, requires = "events")]
    pub(super) socket: bool,
    /// Of latency: seconds from its submission until a task is due, from when on its times count.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, conflicts_with = "events")]
    pub(super) delay: f64,
    /// Bytes of a payload.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(11..=16_000_000))]
    pub(super) payload: u32,
    /// A priority, or several with their shares, for example high=1,low=3; the server's default if
    /// absent.
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    pub(super) priority: Vec<String>,
    /// Submit so many tasks first, which stay waiting; high ones, for a queue refuses others from a
    /// million on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) queued: u64,
    /// Of drain: the tasks are there already.
    #[arg(long)]
    pub(super) filled: bool,
    /// At the end, cancel what still waits in the queue.
    #[arg(long)]
    pub(super) clean: bool,
    /// The server's process on this machine, to say what a task costs it.
    #[arg(long, value_name = "PROCESS")]
    pub(super) pid: Option<u32>,
    /// How to say it.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

/// Which load to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// Submissions as fast as connections allow.
    Submit,
    /// Workers that report a batch and claim the next in one call, as fast as they can.
    Drain,
    /// Submits and drains at once, each task drained that was submitted.
    EndToEnd,
    /// From when a task is due at a given rate to its answer, its worker and its completion.
    Latency,
    /// Many more submissions than a server can take, beside workers.
    Overload,
    /// Only submit what --queued says.
    Fill,
    /// Only cancel what waits in the queue.
    Clean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people, with charts.
    Text,
    /// For machines, with everything.
    Json,
    /// For scripts: a line for each measure, as name=value.
    Line,
}

impl Scenario {
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
