//! Numbers and times in a few characters.

use std::time::Duration;

/// 999, 1.2k, 34k, 5.6M.
pub(super) fn short(number: u64) -> String {
    let (value, unit) = match number {
        0..1_000 => return number.to_string(),
        1_000..1_000_000 => (number as f64 / 1e3, 'k'),
        1_000_000..1_000_000_000 => (number as f64 / 1e6, 'M'),
        _ => (number as f64 / 1e9, 'G'),
    };
    // Cut rather than rounded: 999,999 are not yet a million.
    if value < 10.0 {
        format!("{:.1}{unit}", (value * 10.0).floor() / 10.0)
    } else {
        format!("{:.0}{unit}", value.floor())
    }
}

/// 12s, 3m, 4h, 5d.
pub(super) fn age(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// 0.4 ms, 12 ms, 3.4 s.
pub(super) fn span(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    match millis {
        0.0..10.0 => format!("{millis:.1} ms"),
        10.0..1_000.0 => format!("{millis:.0} ms"),
        1_000.0..120_000.0 => format!("{:.1} s", millis / 1e3),
        _ => age(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        let numbers = [0, 999, 1_000, 9_999, 12_345, 999_999, 1_000_000, 2_500_000_000];
        let shown: Vec<_> = numbers.into_iter().map(short).collect();
        assert_eq!(shown, ["0", "999", "1.0k", "9.9k", "12k", "999k", "1.0M", "2.5G"]);
        let ages: Vec<_> =
            [5, 119, 120, 7_199, 7_200, 200_000].map(|s| age(Duration::from_secs(s))).to_vec();
        assert_eq!(ages, ["5s", "119s", "2m", "119m", "2h", "2d"]);
        let spans = [400, 12_000, 3_400_000].map(|micros| span(Duration::from_micros(micros)));
        assert_eq!(spans, ["0.4 ms", "12 ms", "3.4 s"]);
    }
}
