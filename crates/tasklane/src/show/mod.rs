//! What commands print: tables for people, JSON for machines.
//!
//! - [`table`] rows under headings; [`sheet`] one thing, a member in a line
//! - [`text`] times, sizes and foreign text as people read them; [`colour`] where there is a terminal
//!
//! What was asked for goes to the output, what is said about it to the standard error.

mod colour;
mod sheet;
mod table;
mod text;

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

pub(crate) use colour::{Colours, Paint};
pub(crate) use sheet::Sheet;
pub(crate) use table::{Cell, Table};
pub(crate) use text::{age, clean, many, moment, seconds};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One JSON document, as the server answers.
    Json,
    /// A JSON document in a line for each thing.
    Ndjson,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Shown {
    /// How to print it.
    #[arg(
        short,
        long,
        value_enum,
        default_value_t = Format::Table,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    output: Format,
}

impl Shown {
    pub(crate) const fn format(self) -> Format {
        self.output
    }

    /// Prints one thing.
    pub(crate) fn one(
        self,
        thing: &impl Serialize,
        text: impl FnOnce(Colours) -> String,
    ) -> anyhow::Result<()> {
        match self.output {
            Format::Table => print(&text(Colours::of_output())),
            Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(thing)?)),
            Format::Ndjson => line(thing),
        }
    }

    /// Prints an answer that has a list and more: whole in JSON, else its list.
    pub(crate) fn answer<T: Serialize + Clone>(
        self,
        answer: &impl Serialize,
        (name, things): (&'static str, &[T]),
        table: impl FnOnce(&[T]) -> Table,
    ) -> anyhow::Result<()> {
        match self.output {
            Format::Json => self.one(answer, |_| String::new()),
            Format::Table | Format::Ndjson => self.many(&List::whole(name, things.to_vec()), table),
        }
    }

    /// Prints a list.
    pub(crate) fn many<T: Serialize>(
        self,
        list: &List<T>,
        table: impl FnOnce(&[T]) -> Table,
    ) -> anyhow::Result<()> {
        match self.output {
            Format::Table if list.things.is_empty() => eprintln!("there are no {}", list.word()),
            Format::Table => print(&table(&list.things).render(Colours::of_output()))?,
            Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(list)?))?,
            Format::Ndjson => list.things.iter().try_for_each(line)?,
        }
        if let (Some(cursor), Format::Table | Format::Ndjson) = (&list.next_cursor, self.output) {
            eprintln!("there may be more: --all, or --cursor {cursor}");
        }
        Ok(())
    }
}

/// Things under their name, as the server's answers have them.
#[derive(Debug)]
pub(crate) struct List<T> {
    pub(crate) name: &'static str,
    pub(crate) things: Vec<T>,
    pub(crate) next_cursor: Option<Box<str>>,
}

impl<T> List<T> {
    /// All there are.
    pub(crate) const fn whole(name: &'static str, things: Vec<T>) -> Self {
        Self { name, things, next_cursor: None }
    }

    /// What people call them.
    fn word(&self) -> &'static str {
        match self.name {
            "entries" | "groups" => "dead letters",
            name => name,
        }
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name, &self.things)?;
        if let Some(cursor) = &self.next_cursor {
            map.serialize_entry("next_cursor", cursor)?;
        }
        map.end()
    }
}

/// Prints a JSON document in a line.
pub(crate) fn line(thing: &impl Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string(thing)?))
}

/// Prints a text. A reader that has gone is an error, so that nobody writes on.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}
