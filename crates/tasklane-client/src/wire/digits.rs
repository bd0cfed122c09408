//! Ids, tokens and times as text, without the formatting machinery: answers are full of them.

use serde::{Serialize, Serializer};

const HEX: &[u8; 16] = b"0123456789abcdef";
/// From the epoch to the end of the year 9999, in seconds.
const SECONDS_MAX: i64 = 253_402_300_799;
const SECONDS_OF_DAY: i64 = 86_400;
/// From 1 March 0000, where a year with its leap day at the end begins, to the epoch.
const DAYS_TO_EPOCH: i64 = 719_468;

pub(super) fn serialize<S: Serializer>(digits: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    std::str::from_utf8(digits).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

/// As 32 digits.
pub fn hex(bytes: &[u8; 16]) -> [u8; 32] {
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 0xf]) {
            *digit = HEX.get(usize::from(nibble)).copied().unwrap_or_default();
        }
    }
    digits
}

/// As 32 digits with hyphens among them.
pub(super) fn uuid(bytes: &[u8; 16]) -> [u8; 36] {
    let digits = hex(bytes);
    let mut shown = [b'-'; 36];
    for (from, to) in
        [(0..8, 0..8), (8..12, 9..13), (12..16, 14..18), (16..20, 19..23), (20..32, 24..36)]
    {
        if let (Some(from), Some(to)) = (digits.get(from), shown.get_mut(to)) {
            to.copy_from_slice(from);
        }
    }
    shown
}

/// As RFC 3339 in UTC with microseconds; `None` for what is before 1970 or after 9999.
pub(super) fn time(micros: i64) -> Option<[u8; 27]> {
    let seconds = micros.div_euclid(1_000_000);
    if !(0..=SECONDS_MAX).contains(&seconds) {
        return None;
    }
    let (days, of_day) = (seconds / SECONDS_OF_DAY, seconds % SECONDS_OF_DAY);
    let (year, month, day) = date(days);
    let of_second = micros.rem_euclid(1_000_000);
    let numbers = [
        year / 100,
        year % 100,
        month,
        day,
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60,
        of_second / 10_000,
        of_second / 100 % 100,
        of_second % 100,
    ];
    let [y, z, m, d, h, n, s, a, b, c] = numbers.map(pair);
    Some([
        y[0], y[1], z[0], z[1], b'-', m[0], m[1], b'-', d[0], d[1], b'T', h[0], h[1], b':', n[0],
        n[1], b':', s[0], s[1], b'.', a[0], a[1], b[0], b[1], c[0], c[1], b'Z',
    ])
}

/// A number below 100 as two digits.
const fn pair(number: i64) -> [u8; 2] {
    let number = number as u8;
    [b'0' + number / 10, b'0' + number % 10]
}

/// Year, month and day of so many days after the epoch. Counts in eras of 400 years, which all have
/// the same length, and in years that begin in March, so that the leap day is the last.
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_EPOCH;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_as_core_shows_them() {
        let bytes = *b"\x01\x98\xab\xcd\xef\x00\x7f\xff\x81\x02\x03\x04\x05\x06\xfe\xed";
        let shown = |digits: &[u8]| String::from_utf8(digits.to_vec()).unwrap();
        let id = tasklane_core::WorkerId::from_bytes(bytes);
        assert_eq!(shown(&uuid(&bytes)), id.to_string());
        let token = tasklane_core::LeaseToken::from_bytes(bytes);
        assert_eq!(shown(&hex(&bytes)), token.to_string());
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let calendar =
            |micros| format!("{:.6}", jiff::Timestamp::from_microsecond(micros).unwrap());
        let day = SECONDS_OF_DAY * 1_000_000;
        // Every day of a whole era, each at another time of day.
        let days = (0..146_097 + 366).map(|number| number * day + number * 61_234_567 % day);
        for micros in days {
            let digits = time(micros).unwrap();
            assert_eq!(std::str::from_utf8(&digits).unwrap(), calendar(micros));
        }
        let last = time(SECONDS_MAX * 1_000_000 + 999_999).unwrap();
        assert_eq!(&last, b"9999-12-31T23:59:59.999999Z");
        assert_eq!((time(-1), time((SECONDS_MAX + 1) * 1_000_000)), (None, None));
    }
}
