//! How much a call weighs while it waits for the writer.

use tasklane_core::{Command, Draft, Failure, Intent, Outcome, Progress};
use tasklane_store::{ClaimRequest, LeaseRef, Leases, Renewal, Submission};

/// What a waiting call takes besides its units: about what its closure, its box and the channel of
/// its answer measure.
const CALL_BYTES: usize = 512;

/// The size of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Tasks it concerns: how long it takes.
    pub(super) tasks: usize,
    /// Memory it holds.
    pub(super) bytes: usize,
}

impl Size {
    fn new(tasks: usize, bytes: usize) -> Self {
        Self { tasks: tasks.max(1), bytes: bytes.saturating_add(CALL_BYTES) }
    }

    pub(crate) fn of_submissions(submissions: &[Submission]) -> Self {
        let drafts = submissions.iter().flat_map(|submission| &submission.tasks);
        let tasks = submissions.iter().map(|submission| submission.tasks.len()).sum();
        Self::new(tasks, drafts.map(draft_bytes).sum())
    }

    pub(crate) fn of_commands(commands: &[Command]) -> Self {
        Self::new(commands.len(), commands.iter().map(command_bytes).sum())
    }

    pub(crate) fn of_requests(requests: &[ClaimRequest]) -> Self {
        Self::new(requests.len(), size_of_val(requests))
    }

    pub(crate) fn of_renewals(renewals: &[Renewal]) -> Self {
        let leases = |renewal: &Renewal| match &renewal.leases {
            Leases::All => 0,
            Leases::These(these) => these.len() * size_of::<LeaseRef>(),
        };
        let leases: usize = renewals.iter().map(leases).sum();
        Self::new(renewals.len(), size_of_val(renewals) + leases)
    }

    /// Of two things asked in one call.
    pub(crate) fn and(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes);
        Self { tasks: self.tasks + other.tasks, bytes }
    }
}

/// A call that carries nothing large.
impl From<usize> for Size {
    fn from(tasks: usize) -> Self {
        Self::new(tasks, 0)
    }
}

fn draft_bytes(draft: &Draft) -> usize {
    let labels: usize =
        draft.spec.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    size_of::<Draft>() + draft.payload.len() + labels
}

fn command_bytes(command: &Command) -> usize {
    let carried = match &command.intent {
        Intent::Settle(_, Outcome::Completed(result)) => result.len(),
        Intent::Settle(_, Outcome::Failed { failure, .. }) => failure_bytes(failure),
        Intent::Progress(_, progress) => progress_bytes(progress),
        _ => 0,
    };
    size_of::<Command>() + carried
}

fn failure_bytes(failure: &Failure) -> usize {
    let details = failure.details.as_ref().map_or(0, |details| details.len());
    let stack = failure.stack.as_ref().map_or(0, |stack| stack.len());
    failure.message.len() + details + stack
}

fn progress_bytes(progress: &Progress) -> usize {
    let message = progress.message.as_ref().map_or(0, |message| message.len());
    message + progress.details.as_ref().map_or(0, |details| details.len())
}
