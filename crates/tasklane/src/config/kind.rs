//! How the value of a setting is written, and what it is once it has been read.

use std::time::Duration;

use super::document::Raw;

/// A value that has been read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Decimal(f64),
    Span(Duration),
    /// A span without an end.
    Endless,
    Text(String),
    Texts(Vec<String>),
    Flag(bool),
    /// Shares of critical, high, normal and low.
    Shares([u32; 4]),
}

/// How a value is written, and which values are possible.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any text; the word stands for it in help.
    Text(&'static str),
    /// The same, or nothing at all, which is the default.
    Optional(&'static str),
    /// A list of texts without commas, which divide them outside of files.
    Texts(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number.
    Whole { min: u64, max: u64 },
    /// A number that may have decimals.
    Decimal { min: f64, max: f64 },
    /// A time as a whole number of milliseconds.
    Milliseconds { min: u64, max: u64 },
    /// A time as a number of seconds that may have decimals.
    Seconds { min: f64, max: f64 },
    /// The same, or this word for a time without an end.
    SecondsOr { word: &'static str, max: f64 },
    /// `true` or `false`.
    Flag,
    /// Four whole numbers.
    Shares,
}

impl Kind {
    /// Reads what stands in a file.
    pub(crate) fn read(self, raw: &Raw) -> Option<Value> {
        match (self, raw) {
            (Self::Text(_) | Self::Optional(_) | Self::Choice(_), Raw::Text(text)) => {
                self.read_text(text)
            }
            (Self::SecondsOr { word, .. }, Raw::Text(text)) if text == word => Some(Value::Endless),
            (Self::Texts(_), Raw::Texts(texts)) if texts.is_empty() => {
                Some(Value::Texts(Vec::new()))
            }
            (Self::Texts(_), Raw::Texts(texts)) => {
                let plain = texts.iter().all(|text| !text.contains(','));
                plain.then(|| self.read_text(&texts.join(","))).flatten()
            }
            (Self::Flag, Raw::Flag(flag)) => Some(Value::Flag(*flag)),
            (Self::Shares, Raw::List(numbers)) => self.read_text(&numbers.join(",")),
            (Self::Text(_) | Self::Optional(_) | Self::Texts(_) | Self::Choice(_), _) => None,
            (Self::Flag | Self::Shares, _) => None,
            (_, Raw::Number(text)) => self.read_text(text),
            _ => None,
        }
    }

    /// Reads what an environment or a flag gives.
    pub(crate) fn read_text(self, text: &str) -> Option<Value> {
        let decimal = |min: f64, max: f64| {
            let number = text.parse::<f64>().ok()?;
            (min..=max).contains(&number).then_some(number)
        };
        let whole = |min: u64, max: u64| {
            let number = text.parse::<u64>().ok()?;
            (min..=max).contains(&number).then_some(number)
        };
        let span = |min, max| Duration::try_from_secs_f64(decimal(min, max)?).ok();
        match self {
            Self::Text(_) => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
            Self::Optional(_) => Some(Value::Text(text.to_owned())),
            Self::Texts(_) => {
                let texts = text.split(',').map(|text| text.trim().to_owned());
                let texts: Vec<_> = texts.collect();
                texts.iter().all(|text| !text.is_empty()).then_some(Value::Texts(texts))
            }
            Self::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::Whole { min, max } => whole(min, max).map(Value::Whole),
            Self::Decimal { min, max } => decimal(min, max).map(Value::Decimal),
            Self::Milliseconds { min, max } => {
                whole(min, max).map(|ms| Value::Span(Duration::from_millis(ms)))
            }
            Self::Seconds { min, max } => span(min, max).map(Value::Span),
            Self::SecondsOr { word, .. } if text == word => Some(Value::Endless),
            Self::SecondsOr { max, .. } => span(0.0, max).map(Value::Span),
            Self::Flag => text.parse().ok().map(Value::Flag),
            Self::Shares => {
                let shares = text.split(',').map(|share| share.trim().parse::<u32>());
                let shares = shares.collect::<Result<Vec<_>, _>>().ok()?;
                <[u32; 4]>::try_from(shares).ok().map(Value::Shares)
            }
        }
    }

    /// What is expected, in words.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Text(word) | Self::Optional(word) => format!("text: {word}"),
            Self::Texts(word) => format!("a list of texts: {word}"),
            Self::Choice(words) => {
                let quoted: Vec<_> = words.iter().map(|word| quoted(word)).collect();
                format!("one of {}", quoted.join(", "))
            }
            Self::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Self::Decimal { min, max } => format!("a number from {min} to {max}"),
            Self::Milliseconds { min, max } => {
                format!("whole milliseconds from {min} to {max}")
            }
            Self::Seconds { min, max } => format!("seconds from {min} to {max}"),
            Self::SecondsOr { word, max } => format!("seconds up to {max}, or \"{word}\""),
            Self::Flag => "true or false".to_owned(),
            Self::Shares => "four whole numbers: critical, high, normal, low".to_owned(),
        }
    }

    /// What stands for a value in help.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Self::Text(word) | Self::Optional(word) | Self::Texts(word) => word,
            Self::Choice(_) => "WORD",
            Self::Whole { .. } | Self::Decimal { .. } => "NUMBER",
            Self::Milliseconds { .. } => "MS",
            Self::Seconds { .. } | Self::SecondsOr { .. } => "SECONDS",
            Self::Flag => "BOOL",
            Self::Shares => "SHARES",
        }
    }

    /// A value as a file has it.
    pub(crate) fn write(self, value: &Value) -> String {
        match value {
            Value::Whole(number) => number.to_string(),
            Value::Decimal(number) => format!("{number:?}"),
            Value::Span(span) => match self {
                Self::Milliseconds { .. } => span.as_millis().to_string(),
                _ if span.subsec_nanos() == 0 => span.as_secs().to_string(),
                _ => span.as_secs_f64().to_string(),
            },
            Value::Endless => match self {
                Self::SecondsOr { word, .. } => quoted(word),
                _ => quoted("never"),
            },
            Value::Text(text) => quoted(text),
            Value::Texts(texts) => {
                let quoted: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                format!("[{}]", quoted.join(", "))
            }
            Value::Flag(flag) => flag.to_string(),
            Value::Shares(shares) => {
                format!("[{}]", shares.map(|share| share.to_string()).join(", "))
            }
        }
    }
}

/// A text as TOML has it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let (second, never) = (Duration::from_millis(1_500), "never");
        let kinds = [
            (Kind::Text("X"), Value::Text("a \"b\" \\ c".to_owned())),
            (Kind::Optional("X"), Value::Text(String::new())),
            (Kind::Texts("X"), Value::Texts(Vec::new())),
            (Kind::Texts("X"), Value::Texts(vec!["a b".to_owned(), "\"c\"".to_owned()])),
            (Kind::Whole { min: 0, max: u64::MAX }, Value::Whole(u64::MAX)),
            (Kind::Decimal { min: 0.0, max: 1.0 }, Value::Decimal(1.0)),
            (Kind::Milliseconds { min: 0, max: 9_999 }, Value::Span(second)),
            (Kind::Seconds { min: 0.0, max: 9.0 }, Value::Span(second)),
            (Kind::SecondsOr { word: never, max: 9.0 }, Value::Endless),
            (Kind::Flag, Value::Flag(true)),
            (Kind::Shares, Value::Shares([4, 3, 2, 1])),
        ];
        for (kind, value) in kinds {
            let text = format!("x = {}", kind.write(&value));
            let entries = super::super::document::read(&text).unwrap();
            assert_eq!(kind.read(&entries[0].raw), Some(value), "{text}");
        }
    }

    #[test]
    fn values_beyond_their_bounds_are_not_read() {
        let whole = Kind::Whole { min: 1, max: 5 };
        let seconds = Kind::Seconds { min: 0.5, max: 5.0 };
        for (kind, bad) in [
            (whole, "0"),
            (whole, "6"),
            (whole, "1.5"),
            (whole, "-1"),
            (seconds, "0.4"),
            (seconds, "NaN"),
            (seconds, "inf"),
            (Kind::Flag, "yes"),
            (Kind::Shares, "1,2,3"),
            (Kind::Choice(&["a", "b"]), "c"),
            (Kind::Text("X"), ""),
            (Kind::Texts("X"), ""),
            (Kind::Texts("X"), "a,,b"),
        ] {
            assert_eq!(kind.read_text(bad), None, "{bad}");
        }
        assert_eq!(whole.read(&Raw::Text("2".to_owned())), None, "a text is no number");
        let two = Raw::Texts(vec!["a,b".to_owned()]);
        assert_eq!(Kind::Texts("X").read(&two), None, "a comma would make two of it");
    }
}
