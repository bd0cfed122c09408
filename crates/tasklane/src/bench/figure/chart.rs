//! Figures as pictures made of characters.

use std::fmt::Write as _;

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BAR_WIDTH: f64 = 40.0;

/// One character for each value, as high as it is beside the greatest; at most `width` of them,
/// each then the mean of its neighbours.
pub(crate) fn spark(values: &[u64], width: usize) -> String {
    let size = values.len().div_ceil(width.max(1)).max(1);
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
    let means: Vec<f64> = values.chunks(size).map(mean).collect();
    let greatest = means.iter().copied().fold(0.0, f64::max);
    let height = |mean: &f64| {
        let step = (mean / greatest.max(f64::MIN_POSITIVE) * 7.0).round() as usize;
        HEIGHTS.get(step).copied().unwrap_or('█')
    };
    means.iter().map(height).collect()
}

/// A bar for each step, as long as its share.
pub(crate) fn bars(steps: &[(f64, u64)]) -> String {
    let all = steps.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
    let greatest = steps.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1) as f64;
    let mut text = String::new();
    for (end, count) in steps {
        let length = (*count as f64 / greatest * BAR_WIDTH).round() as usize;
        // What is there is seen, however little it is.
        let bar = "█".repeat(length.max(usize::from(*count > 0)));
        let share = *count as f64 / all * 100.0;
        // Writing into memory does not fail.
        let _ = writeln!(text, "  ≤ {end:>7} ms {share:>6.2} % {bar}");
    }
    text
}

/// A number with commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_follow_values_and_many_values_share_a_place() {
        assert_eq!(spark(&[0, 50, 100], 10), "▁▅█");
        assert_eq!(spark(&[0, 0, 10, 10], 2), "▁█");
        assert_eq!(spark(&[], 10), "");
        assert_eq!(spark(&[0, 0], 10), "▁▁");
    }

    #[test]
    fn a_bar_shows_even_a_little() {
        let text = bars(&[(0.5, 999), (1.0, 0), (2.0, 1)]);
        let lengths: Vec<_> = text.lines().map(|line| line.matches('█').count()).collect();
        assert_eq!(lengths, [40, 0, 1]);
        assert!(text.contains("≤     0.5 ms  99.90 %"), "{text}");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([grouped(0), grouped(999), grouped(1_234_567)], ["0", "999", "1,234,567"]);
    }
}
