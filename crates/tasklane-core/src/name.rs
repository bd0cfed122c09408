//! Names and keys that users choose, checked once at construction and trusted afterwards.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::error::{Invalid, Problem};
use crate::limits;

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Checks and wraps a ", $field, ".")]
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                let text = text.as_ref();
                $check($field, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }
    };
}

text!(
    /// A queue: the unit of pause, settings, weights and depth limits.
    QueueName, "queue", check_name
);
text!(
    /// What a task is, and so which handler runs it.
    TaskType, "type", check_name
);
text!(
    /// Something a worker must have to run a task, for example `gpu`.
    Capability, "capability", check_name
);
text!(
    /// Makes a submission safe to repeat (S13); scoped to its queue.
    IdempotencyKey, "idempotency_key", check_key
);
text!(
    /// Tasks with the same ordering key in a queue run one at a time, in order (S8).
    OrderingKey, "ordering_key", check_key
);

impl QueueName {
    /// The queue of tasks that name none.
    pub fn default_queue() -> Self {
        static DEFAULT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("default"));
        Self(DEFAULT.clone())
    }
}

/// Checks a queue, type or capability: short, printable, and free of the characters that the
/// layouts of remote stores and log lines give a meaning to.
fn check_name(field: &'static str, text: &str) -> Result<(), Invalid> {
    check_length(field, text, limits::NAME_BYTES_MAX)?;
    let forbidden = |c: char| matches!(c, '{' | '}' | ':') || c.is_control() || is_bidi(c);
    check_characters(field, text, forbidden)
}

fn check_key(field: &'static str, text: &str) -> Result<(), Invalid> {
    check_length(field, text, limits::KEY_BYTES_MAX)?;
    check_characters(field, text, |c| c == '\0')
}

pub(crate) fn check_length(field: &'static str, text: &str, max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, Problem::Empty));
    }
    if text.len() > max {
        return Err(Invalid::new(field, Problem::TooLong { max }));
    }
    Ok(())
}

pub(crate) fn check_characters(
    field: &'static str,
    text: &str,
    forbidden: impl Fn(char) -> bool,
) -> Result<(), Invalid> {
    if text.chars().any(forbidden) {
        return Err(Invalid::new(field, Problem::Characters));
    }
    Ok(())
}

/// Characters that reorder the text around them and so can make a name look like another one.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Problem {
        QueueName::new(text).unwrap_err().problem
    }

    #[test]
    fn ordinary_names_are_taken() {
        for name in ["default", "email.send", "a/b-c_d", "größe", "任务", "with space"] {
            assert_eq!(QueueName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_that_could_confuse_a_store_or_a_reader_are_refused() {
        for name in ["a{b", "a}b", "a:b", "a\0b", "a\nb", "a\u{202E}b", "a\u{2066}b", "a\u{85}b"] {
            assert_eq!(problem(name), Problem::Characters, "{name:?}");
        }
        assert_eq!(problem(""), Problem::Empty);
        assert_eq!(problem(&"x".repeat(129)), Problem::TooLong { max: 128 });
        assert!(QueueName::new("x".repeat(128)).is_ok());
    }

    #[test]
    fn keys_take_anything_but_nul_within_their_length() {
        assert!(IdempotencyKey::new("order:42/{a}\n").is_ok());
        assert_eq!(IdempotencyKey::new("a\0").unwrap_err().problem, Problem::Characters);
        assert!(OrderingKey::new("x".repeat(257)).is_err());
    }
}
