//! How the catalogue is written down: blocks of fields.
//!
//! ```text
//! # A comment.
//! bug the-name-of-it
//! file: crates/…/a.rs
//! find:
//!     a line, four spaces in
//! put:
//!     what to write instead
//! ```
//!
//! A block begins with its kind and its name. A field has its value behind the colon, or below it,
//! four spaces in; there the spaces beyond these four belong to the value.

use crate::Failure;

/// Spaces before each line of a value that stands below its field.
const INDENT: &str = "    ";

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it is an entry of.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The line it begins at.
    pub line: usize,
    fields: Vec<(String, String)>,
}

impl Block {
    /// Reads all blocks of a text.
    pub fn read_all(text: &str) -> Result<Vec<Self>, Failure> {
        let mut blocks: Vec<Self> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let wrong = |why: &str| -> Failure { format!("line {number}: {why}: {line}").into() };
            let last = blocks.last_mut().and_then(|block| block.fields.last_mut());
            if let Some(more) = line.strip_prefix(INDENT) {
                let (_, value) = last.ok_or_else(|| wrong("belongs to no field"))?;
                value.push_str(more);
                value.push('\n');
            } else if line.trim().is_empty() {
                // Inside a value it is a line of it; at the end of one it is cut off again.
                if let Some((_, value)) = last.filter(|(_, value)| value.ends_with('\n')) {
                    value.push('\n');
                }
            } else if line.starts_with('#') {
            } else if let Some((name, value)) = line.split_once(':') {
                let block = blocks.last_mut().ok_or_else(|| wrong("belongs to no block"))?;
                if block.fields.iter().any(|(known, _)| known == name) {
                    return Err(wrong("is there twice"));
                }
                block.fields.push((name.into(), value.trim().into()));
            } else {
                let (kind, name) = line.split_once(' ').ok_or_else(|| wrong("not a field"))?;
                let (kind, name) = (kind.into(), name.trim().into());
                blocks.push(Self { kind, name, line: number, fields: Vec::new() });
            }
        }
        for (_, value) in blocks.iter_mut().flat_map(|block| &mut block.fields) {
            value.truncate(value.trim_end_matches('\n').len());
        }
        Ok(blocks)
    }

    /// Takes a field out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.fields.iter().position(|(known, _)| known == name)?;
        Some(self.fields.remove(at).1)
    }

    /// Takes a field out that must be there.
    pub fn require(&mut self, name: &str) -> Result<String, Failure> {
        let value = self.take(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("line {}: {} has no {name}", self.line, self.name).into())
    }

    /// Refuses what nobody took.
    pub fn finish(self) -> Result<(), Failure> {
        match self.fields.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(format!("line {}: {} has a field {name}", self.line, self.name).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_their_field_or_below_it() {
        let text = "# why\n\nbug one\nfile: a: b\nfind:\n    if x {\n        y\n\n    }\n\nput:\n\n\
                    bug two\nfile: c\n";
        let mut blocks = Block::read_all(text).unwrap();
        assert_eq!(blocks.len(), 2);
        let one = &mut blocks[0];
        assert_eq!((one.kind.as_str(), one.name.as_str(), one.line), ("bug", "one", 3));
        assert_eq!(one.require("file").unwrap(), "a: b");
        assert_eq!(one.require("find").unwrap(), "if x {\n    y\n\n}");
        assert!(one.clone().finish().is_err(), "nobody took what to put");
        assert_eq!(one.take("put").as_deref(), Some(""));
        assert!(one.require("put").is_err());
        assert_eq!(blocks.swap_remove(0).finish().ok(), Some(()));
    }

    #[test]
    fn what_belongs_nowhere_is_refused_with_its_line() {
        for (text, line) in [
            ("file: a", "line 1"),
            ("bug one\n    x", "line 2"),
            ("bug one\nfile: a\nfile: b", "line 3"),
            ("bug", "line 1"),
        ] {
            let error = Block::read_all(text).unwrap_err().to_string();
            assert!(error.starts_with(line), "{text}: {error}");
        }
    }
}
