//! Guesses what was meant by a name that is not known.

/// The name that is nearest to `given`, if one is near enough.
pub(crate) fn nearest(given: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let length = given.chars().count();
    let far = (length / 3).max(2);
    // The unit at its end is what is most easily forgotten.
    let unit = format!("{given}_");
    let far_from = |name: &str| match name.starts_with(&unit) {
        true => Some(1),
        // So many at least have to be put in: a name that is far too long is not compared at all.
        false if name.chars().count().abs_diff(length) > far => None,
        false => Some(distance(given, name)),
    };
    let distances = names.filter_map(|name| Some((far_from(&name)?, name)));
    let nearest = distances.min_by(|one, other| one.0.cmp(&other.0))?;
    (nearest.0 <= far).then_some(nearest.1)
}

/// How many characters have to be put in, left out or exchanged.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, c) in one.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (above, d) in row.iter().skip(1).zip(&other) {
            let exchanged = diagonal + usize::from(c != *d);
            left = exchanged.min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_changes() {
        let cases = [("", "", 0), ("lease", "lease", 0), ("lease", "leas", 1), ("abc", "xbcd", 2)];
        for (one, other, expected) in cases {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = || ["breaker.failures", "lease_ms", "listen"].map(str::to_owned);
        let guess = |given| nearest(given, names().into_iter());
        assert_eq!(guess("braker.failuers").as_deref(), Some("breaker.failures"));
        assert_eq!(guess("listn").as_deref(), Some("listen"));
        assert_eq!(guess("lease").as_deref(), Some("lease_ms"));
        assert_eq!(guess("colour"), None);
    }

    #[test]
    fn a_name_without_an_end_is_not_compared() {
        // Compared, this one would take minutes.
        let long = "lee".repeat(1_000_000);
        assert_eq!(nearest(&long, std::iter::repeat_n("lease_ms".to_owned(), 1_000)), None);
    }
}
