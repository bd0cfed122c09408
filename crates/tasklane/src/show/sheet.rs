//! One thing, a member in a line.

use super::colour::{Colours, Paint};
use super::text::clean;

/// Members by name.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    lines: Vec<(&'static str, String, Paint)>,
}

impl Sheet {
    pub(crate) fn with(self, name: &'static str, value: impl AsRef<str>) -> Self {
        self.painted(name, value, Paint::Plain)
    }

    /// What may be absent is left out.
    pub(crate) fn some(self, name: &'static str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn painted(
        mut self,
        name: &'static str,
        value: impl AsRef<str>,
        paint: Paint,
    ) -> Self {
        self.lines.push((name, clean(value.as_ref()), paint));
        self
    }

    pub(crate) fn render(&self, colours: Colours) -> String {
        let width = self.lines.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
        let line = |(name, value, paint): &(&str, String, Paint)| {
            let space = " ".repeat(width.saturating_sub(name.len()));
            let name = colours.paint(Paint::Heading, name);
            format!("{name}{space}  {}\n", colours.paint(*paint, value))
        };
        self.lines.iter().map(line).collect()
    }
}
