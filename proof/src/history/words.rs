//! Lines of words: the text form of everything the history and the pipes carry.

use std::str::FromStr;

/// A line that does not say what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed line: {0}")]
pub struct Malformed(pub String);

/// The words of one line, taken one after the other.
pub(crate) struct Words<'a> {
    line: &'a str,
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self { line, rest: line.trim() }
    }

    /// The next word as a value.
    pub(crate) fn value<T: FromStr>(&mut self) -> Result<T, Malformed> {
        let word = self.word()?;
        word.parse().map_err(|_| self.malformed())
    }

    /// The next word as it is.
    pub(crate) fn word(&mut self) -> Result<&'a str, Malformed> {
        match self.next() {
            Some(word) => Ok(word),
            None => Err(self.malformed()),
        }
    }

    /// Everything that is left.
    pub(crate) fn remainder(self) -> &'a str {
        self.rest
    }

    pub(crate) fn malformed(&self) -> Malformed {
        Malformed(self.line.to_owned())
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (word, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(word)
    }
}

/// The parts of one word, which are kept apart by slashes.
pub(crate) struct Parts<'a> {
    word: &'a str,
    parts: std::str::Split<'a, char>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(word: &'a str) -> Self {
        Self { word, parts: word.split('/') }
    }

    pub(crate) fn value<T: FromStr>(&mut self) -> Result<T, Malformed> {
        let part = self.part()?;
        part.parse().map_err(|_| Malformed(self.word.to_owned()))
    }

    pub(crate) fn part(&mut self) -> Result<&'a str, Malformed> {
        self.parts.next().ok_or_else(|| Malformed(self.word.to_owned()))
    }
}
