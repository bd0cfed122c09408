//! Failures: what a worker reports, what kind it is, and what each kind allows.

use bytes::Bytes;

use crate::limits;

/// What sort of failure it was, which decides whether and how soon to try again (S12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// May well succeed next time.
    Transient,
    /// The other side asked for less.
    RateLimited,
    /// Took longer than it may.
    Timeout,
    /// Ran out of memory, disk or the like.
    Resource,
    /// Nobody said what it was.
    Unknown,
    /// Will fail every time.
    Permanent,
    /// The handler itself is broken.
    Bug,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Transient,
        Self::RateLimited,
        Self::Timeout,
        Self::Resource,
        Self::Unknown,
        Self::Permanent,
        Self::Bug,
    ];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::Resource => "resource",
            Self::Unknown => "unknown",
            Self::Permanent => "permanent",
            Self::Bug => "bug",
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// How many retries each kind of failure allows at most, whatever a task asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindLimits {
    /// Default 5.
    pub transient: u32,
    /// Default 5; its delays are doubled.
    pub rate_limited: u32,
    /// Default 3.
    pub timeout: u32,
    /// Default 3.
    pub resource: u32,
    /// Default 3.
    pub unknown: u32,
}

impl Default for KindLimits {
    fn default() -> Self {
        Self { transient: 5, rate_limited: 5, timeout: 3, resource: 3, unknown: 3 }
    }
}

impl KindLimits {
    /// Retries that `kind` allows.
    pub const fn retries(&self, kind: ErrorKind) -> u32 {
        match kind {
            ErrorKind::Transient => self.transient,
            ErrorKind::RateLimited => self.rate_limited,
            ErrorKind::Timeout => self.timeout,
            ErrorKind::Resource => self.resource,
            ErrorKind::Unknown => self.unknown,
            ErrorKind::Permanent | ErrorKind::Bug => 0,
        }
    }
}

/// What went wrong in one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub message: Box<str>,
    /// Decides about the retry.
    pub kind: ErrorKind,
    /// For machines, for example `ECONNRESET`.
    pub code: Option<Box<str>>,
    /// `false` forbids a retry whatever the kind allows.
    pub retryable: bool,
    /// More, as the worker's own JSON. Kept with the attempt only.
    pub details: Option<Bytes>,
    /// Where in the handler. Kept with the attempt only.
    pub stack: Option<Box<str>>,
}

impl Failure {
    /// A failure of `kind`. Text beyond its bound is cut rather than refused: losing the report of
    /// a failure because it is long would be worse.
    pub fn new(kind: ErrorKind, message: &str) -> Self {
        Self {
            message: cut(message, limits::ERROR_MESSAGE_BYTES_MAX),
            kind,
            code: None,
            retryable: true,
            details: None,
            stack: None,
        }
    }

    /// Adds a code.
    pub fn with_code(mut self, code: &str) -> Self {
        self.code = Some(cut(code, limits::ERROR_CODE_BYTES_MAX));
        self
    }

    /// Forbids a retry.
    pub fn not_retryable(mut self) -> Self {
        self.retryable = false;
        self
    }

    /// Adds details; left out when larger than their bound.
    pub fn with_details(mut self, details: Bytes) -> Self {
        self.details = (details.len() <= limits::ERROR_DETAILS_BYTES_MAX).then_some(details);
        self
    }

    /// Adds a stack.
    pub fn with_stack(mut self, stack: &str) -> Self {
        self.stack = Some(cut(stack, limits::ERROR_STACK_BYTES_MAX));
        self
    }

    /// The same without details and stack: what a task shows and a feed carries.
    pub fn summary(&self) -> Self {
        Self {
            message: self.message.clone(),
            kind: self.kind,
            code: self.code.clone(),
            retryable: self.retryable,
            details: None,
            stack: None,
        }
    }
}

/// The beginning of `text` that fits into `max` bytes, ending at a character.
pub(crate) fn cut(text: &str, max: usize) -> Box<str> {
    let end = (0..=max.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    Box::from(text.split_at(end).0)
}

/// A configured rule that names the kind of failures a worker did not classify itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifyRule {
    /// What the failure must show.
    pub when: ClassifyBy,
    /// What it then is.
    pub kind: ErrorKind,
}

/// What a [`ClassifyRule`] looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassifyBy {
    /// The code is exactly this.
    Code(Box<str>),
    /// The message contains this, in any case.
    MessageContains(Box<str>),
}

/// The kind of a failure that came without one: the first rule that fits, else `Unknown`.
pub fn classify(rules: &[ClassifyRule], code: Option<&str>, message: &str) -> ErrorKind {
    let lower = message.to_lowercase();
    let fits = |rule: &&ClassifyRule| match &rule.when {
        ClassifyBy::Code(expected) => code == Some(expected),
        ClassifyBy::MessageContains(part) => lower.contains(&part.to_lowercase()),
    };
    rules.iter().find(fits).map_or(ErrorKind::Unknown, |rule| rule.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_names_the_kind() {
        let rules = [
            ClassifyRule { when: ClassifyBy::Code("429".into()), kind: ErrorKind::RateLimited },
            ClassifyRule {
                when: ClassifyBy::MessageContains("Out Of Memory".into()),
                kind: ErrorKind::Resource,
            },
        ];
        assert_eq!(classify(&rules, Some("429"), "out of memory"), ErrorKind::RateLimited);
        assert_eq!(classify(&rules, None, "worker ran OUT OF MEMORY"), ErrorKind::Resource);
        assert_eq!(classify(&rules, Some("42"), "no idea"), ErrorKind::Unknown);
    }

    #[test]
    fn long_reports_are_cut_at_a_character() {
        let failure = Failure::new(ErrorKind::Bug, &"é".repeat(4_096)).with_code(&"x".repeat(500));
        assert_eq!(failure.message.len(), 4_096);
        assert_eq!(failure.code.unwrap().len(), 128);
        assert_eq!(&*cut("aé", 2), "a");
        let large = Bytes::from(vec![b'x'; 20_000]);
        assert_eq!(Failure::new(ErrorKind::Bug, "").with_details(large).details, None);
    }

    #[test]
    fn permanent_failures_and_bugs_allow_no_retry() {
        let limits = KindLimits::default();
        let allowed = ErrorKind::ALL.map(|kind| limits.retries(kind));
        assert_eq!(allowed, [5, 5, 3, 3, 3, 0, 0]);
        assert!(ErrorKind::ALL.iter().all(|k| ErrorKind::from_word(k.as_str()) == Some(*k)));
    }
}
