//! The four priorities.

use std::fmt;

use crate::error::{Invalid, Problem};

/// How urgent a task is. Ordered: `Critical` is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// 0
    Low,
    /// 1, what a task gets that names none
    #[default]
    Normal,
    /// 2
    High,
    /// 3
    Critical,
}

impl Priority {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them, the most urgent first.
    pub const DESCENDING: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// Its number, 0 to 3.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its number as an index into an array of [`Priority::COUNT`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The priority with this number.
    pub const fn from_number(number: u64) -> Result<Self, Invalid> {
        match number {
            0 => Ok(Self::Low),
            1 => Ok(Self::Normal),
            2 => Ok(Self::High),
            3 => Ok(Self::Critical),
            _ => Err(Invalid::out_of_range("priority", "0 to 3")),
        }
    }

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Priority {
    type Err = Invalid;
    fn from_str(word: &str) -> Result<Self, Invalid> {
        match word {
            "low" => Ok(Self::Low),
            "normal" | "medium" => Ok(Self::Normal),
            "high" => Ok(Self::High),
            "critical" => Ok(Self::Critical),
            _ => {
                let expected = "critical, high, normal or low";
                Err(Invalid::new("priority", Problem::Malformed { expected }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_order_agree() {
        for (number, priority) in Priority::DESCENDING.into_iter().rev().enumerate() {
            assert_eq!(usize::from(priority.number()), number);
            assert_eq!(Priority::from_number(number as u64).unwrap(), priority);
            assert_eq!(priority.as_str().parse::<Priority>().unwrap(), priority);
        }
        assert!(Priority::Critical > Priority::High && Priority::Normal > Priority::Low);
        assert_eq!("medium".parse::<Priority>().unwrap(), Priority::Normal);
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(Priority::from_number(4).is_err());
        for word in ["", "urgent", "High", "3"] {
            assert!(word.parse::<Priority>().is_err(), "{word}");
        }
    }
}
