//! A TOML file as a flat list of values, each with its path and line.

use toml::de::{DeTable, DeValue};

/// A value as it stands in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw {
    Number(String),
    Text(String),
    Flag(bool),
    /// Of numbers.
    List(Vec<String>),
    /// Of texts, or of nothing.
    Texts(Vec<String>),
    /// A section with nothing in it.
    Empty,
    /// Anything that no setting can be.
    Other,
}

/// A value of a file, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The names of its sections and its own; members of lists of sections are numbered from 0.
    pub(crate) path: Vec<String>,
    pub(crate) raw: Raw,
    /// From 1.
    pub(crate) line: usize,
}

/// A file that is not TOML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// Takes a file apart, in the order of its lines.
pub(crate) fn read(text: &str) -> Result<Vec<Entry>, Broken> {
    let document = DeTable::parse(text).map_err(|error| Broken {
        line: error.span().map_or(1, |span| line_at(text, span.start)),
        what: error.message().trim().to_owned(),
    })?;
    let mut entries = Vec::new();
    flatten(text, document.get_ref(), &[], &mut entries);
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn flatten(text: &str, table: &DeTable<'_>, under: &[String], entries: &mut Vec<Entry>) {
    for (name, value) in table {
        let mut path = under.to_vec();
        path.push(name.get_ref().clone().into_owned());
        let line = line_at(text, name.span().start);
        let tables = match value.get_ref() {
            DeValue::Table(table) => vec![(path.clone(), table)],
            DeValue::Array(list) => {
                let tables = list.iter().filter_map(|item| item.get_ref().as_table());
                let numbered = tables.enumerate().map(|(number, table)| {
                    let mut path = path.clone();
                    path.push(number.to_string());
                    (path, table)
                });
                numbered.collect()
            }
            _ => Vec::new(),
        };
        let raw = raw(value.get_ref());
        let empty = tables.iter().all(|(_, table)| table.is_empty());
        for (path, table) in &tables {
            flatten(text, table, path, entries);
        }
        if tables.is_empty() || empty || raw == Raw::Other {
            entries.push(Entry { path, raw, line });
        }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Number(number.to_string()),
            Err(_) => Raw::Other,
        },
        DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Datetime(_) => Raw::Other,
        DeValue::Array(list) => {
            let text = |item: &DeValue<'_>| item.as_str().map(str::to_owned);
            let number = |item: &DeValue<'_>| match raw(item) {
                Raw::Number(number) => Some(number),
                _ => None,
            };
            let items = || list.iter().map(|item| item.get_ref());
            if let Some(texts) = items().map(text).collect() {
                Raw::Texts(texts)
            } else if let Some(numbers) = items().map(number).collect() {
                Raw::List(numbers)
            } else if items().all(DeValue::is_table) {
                Raw::Empty
            } else {
                Raw::Other
            }
        }
        DeValue::Table(_) => Raw::Empty,
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_with_their_paths_and_lines() {
        let text = "a = 1_000\n[b]\nc = \"x\"\n\n[b.\"d.e\"]\nf = [1, 2]\n[[g]]\nh = true\n[[g]]\nh = 0.5\n[i]\n[j]\nk = [\"a\", \"b\"]\nl = []\n";
        let entries = read(text).unwrap();
        let shown: Vec<_> = entries.iter().map(|e| (e.path.join("/"), e.line)).collect();
        let expected = [
            ("a", 1),
            ("b/c", 3),
            ("b/d.e/f", 6),
            ("g/0/h", 8),
            ("g/1/h", 10),
            ("i", 11),
            ("j/k", 13),
            ("j/l", 14),
        ];
        assert_eq!(shown, expected.map(|(path, line)| (path.to_owned(), line)));
        assert_eq!(entries[0].raw, Raw::Number("1000".to_owned()));
        assert_eq!(entries[2].raw, Raw::List(vec!["1".to_owned(), "2".to_owned()]));
        assert_eq!(entries[5].raw, Raw::Empty);
        assert_eq!(entries[6].raw, Raw::Texts(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(entries[7].raw, Raw::Texts(Vec::new()));
    }

    #[test]
    fn what_is_not_toml_is_refused_with_its_line() {
        assert_eq!(read("a = 1\nb = = 2\n").unwrap_err().line, 2);
        assert_eq!(read("a = 1\n\na = 2\n").unwrap_err().line, 3);
    }
}
