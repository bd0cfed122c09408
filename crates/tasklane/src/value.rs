//! Values as people write them in flags.

use std::time::Duration;

use tasklane_client::Priority;
use tasklane_client::wire::Time;
use tasklane_core::StateName;

/// `45s`, `30m`, `12h` or `90d`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time: give a number with s, m, h or d, for example 90d");
    let unit = text.chars().next_back().ok_or_else(bad)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(bad()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    let seconds = number.and_then(|number| number.checked_mul(seconds)).ok_or_else(bad)?;
    Ok(Duration::from_secs(seconds))
}

/// An instant as RFC 3339.
pub(crate) fn time(text: &str) -> Result<Time, String> {
    text.parse().map_err(|expected| format!("give {expected}"))
}

/// A word, or a number from 0 to 3.
pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    let by_number = || text.parse().ok().and_then(|number| Priority::from_number(number).ok());
    let priority = text.parse().ok().or_else(by_number);
    priority.ok_or_else(|| "give critical, high, normal or low".to_owned())
}

/// A state by its word.
pub(crate) fn state(text: &str) -> Result<StateName, String> {
    StateName::from_word(text).ok_or_else(|| {
        let words: Vec<_> = StateName::ALL.into_iter().map(StateName::as_str).collect();
        format!("give one of {}", words.join(", "))
    })
}

/// A label, as `NAME=VALUE`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(span("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(span("12h"), Ok(Duration::from_secs(12 * 3_600)));
        for bad in ["", "90", "d", "-1d", "1.5h", "1w", "99999999999999999999d", "é"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_and_numbers_are_read_as_the_interface_does() {
        assert_eq!(priority("medium"), Ok(Priority::Normal));
        assert_eq!(priority("3"), Ok(Priority::Critical));
        assert!(priority("7").is_err() && priority("urgent").is_err());
        assert_eq!(state("queued"), Ok(StateName::Pending));
        assert!(state("gone").is_err());
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(label("a").is_err() && label("=a").is_err());
    }
}
