//! Colours, where there is a terminal and nobody objects.

use std::io::IsTerminal;

use tasklane_core::StateName;

/// What a colour means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Paint {
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Something is done about it.
    Busy,
    /// Not as it should be, perhaps.
    Doubtful,
    /// Not as it should be.
    Bad,
    /// Not important.
    Faint,
    /// A heading.
    Heading,
}

impl Paint {
    /// The colour of a state.
    pub(crate) const fn of(state: StateName) -> Self {
        match state {
            StateName::Completed => Self::Good,
            StateName::Failed | StateName::DeadLetter => Self::Bad,
            StateName::Assigned | StateName::Running => Self::Busy,
            StateName::Retrying => Self::Doubtful,
            StateName::Cancelled => Self::Faint,
            StateName::Scheduled | StateName::Blocked | StateName::Pending => Self::Plain,
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\u{1b}[32m",
            Self::Busy => "\u{1b}[36m",
            Self::Doubtful => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Faint => "\u{1b}[2m",
            Self::Heading => "\u{1b}[1m",
        }
    }
}

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colours(pub(crate) bool);

impl Colours {
    /// On a terminal, unless `NO_COLOR` is set or the terminal has none.
    pub(crate) fn of_output() -> Self {
        let set = |name, wanted: fn(&str) -> bool| std::env::var(name).is_ok_and(|v| wanted(&v));
        let none = set("NO_COLOR", |value| !value.is_empty()) || set("TERM", |term| term == "dumb");
        Self(!none && std::io::stdout().is_terminal())
    }

    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        match self.0 && paint != Paint::Plain && !text.trim().is_empty() {
            true => format!("{}{text}\u{1b}[0m", paint.code()),
            false => text.to_owned(),
        }
    }
}
