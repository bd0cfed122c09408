//! Times, sizes and foreign text as people read them.

use std::time::Duration;

use tasklane_client::wire::{Seconds, Time};
use unicode_width::UnicodeWidthChar;

/// Text of others stays on its line and does nothing to the terminal.
pub(crate) fn clean(text: &str) -> String {
    let harmless = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(harmless).collect()
}

/// The same, and not wider than this many columns.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let text = clean(text);
    if width(&text) <= columns {
        return text;
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= columns
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{kept}…")
}

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or_default()).sum()
}

/// A length of time in at most two units.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", time.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

pub(crate) fn seconds(seconds: Seconds) -> String {
    age(seconds.0)
}

/// So many of something.
pub(crate) fn many(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// An instant to the second.
pub(crate) fn moment(time: Time) -> String {
    let text = time.to_string();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_at_most_two_units() {
        let shown = |millis| age(Duration::from_millis(millis));
        assert_eq!((shown(40).as_str(), shown(9_900).as_str()), ("0.0s", "9.9s"));
        assert_eq!((shown(12_900).as_str(), shown(192_000).as_str()), ("12s", "3m12s"));
        assert_eq!(shown(7_500_000), "2h05m");
        assert_eq!(shown(100 * 3_600_000), "4d04h");
    }

    #[test]
    fn foreign_text_stays_on_its_line_and_within_its_columns() {
        assert_eq!(clean("a\u{1b}[2J\nb\u{202e}"), "a\u{fffd}[2J b\u{fffd}");
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("too long", 5), "too …");
        assert_eq!(cut("日本語文字", 5), "日本…");
    }
}
