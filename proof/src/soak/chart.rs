//! The samples as a picture: an SVG that needs nothing else.

use std::fmt::Write as _;
use std::time::Duration;

use super::judge::mebibytes;
use super::sample::Sample;

const WIDTH: f64 = 960.0;
/// Room for the title, for the numbers at the left, and for the names at the right.
const TOP: f64 = 64.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 130.0;
const PANEL: f64 = 130.0;
const GAP: f64 = 42.0;
/// Points of a line, at most: more cannot be seen.
const POINTS_MAX: usize = 480;
/// Lines across a panel, about.
const RULES: f64 = 3.0;

/// A line of a panel, with its value at each sample.
struct Line {
    name: &'static str,
    colour: &'static str,
    values: Vec<f64>,
}

/// The whole picture.
pub(super) fn draw(samples: &[Sample], warm_after: Duration, title: &str, end: &str) -> String {
    let line = |name, colour, of: fn(&Sample) -> f64| {
        let values = samples.iter().map(of).collect();
        Line { name, colour, values }
    };
    let panels = [
        ("Memory, MiB", vec![line("resident", "#2563eb", |at| mebibytes(at.memory_bytes))]),
        (
            "Disk, MiB",
            vec![
                line("database", "#059669", |at| mebibytes(at.database_bytes)),
                line("log", "#9ca3af", |at| mebibytes(at.log_bytes)),
            ],
        ),
        (
            "Descriptors and threads",
            vec![
                line("descriptors", "#d97706", |at| at.descriptors as f64),
                line("threads", "#9ca3af", |at| at.threads as f64),
            ],
        ),
        (
            "Lifecycles a second",
            vec![Line { name: "ended", colour: "#7c3aed", values: speeds(samples) }],
        ),
    ];
    let height = TOP + panels.len() as f64 * (PANEL + GAP) + 10.0;
    let mut svg = String::new();
    // Writing into memory does not fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#374151\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"17\" font-weight=\"600\" fill=\"#111827\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"46\">{}</text>\n",
        escape(title),
        escape(end)
    );
    let axis = Axis { samples, warm_after };
    for (number, (name, lines)) in panels.iter().enumerate() {
        axis.panel(&mut svg, TOP + number as f64 * (PANEL + GAP), name, lines);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Lifecycles a second, since the sample before; the first has none.
fn speeds(samples: &[Sample]) -> Vec<f64> {
    let mut before = Sample::default();
    let speed = |sample: &Sample| {
        let seconds = sample.at.saturating_sub(before.at).as_secs_f64();
        let ended = sample.ended.saturating_sub(before.ended);
        before = *sample;
        if seconds > 0.0 { ended as f64 / seconds } else { f64::NAN }
    };
    samples.iter().map(speed).collect()
}

struct Axis<'a> {
    samples: &'a [Sample],
    warm_after: Duration,
}

impl Axis<'_> {
    fn seconds(&self) -> f64 {
        self.samples.last().map_or(1.0, |last| last.at.as_secs_f64()).max(1.0)
    }

    fn x(&self, at: Duration) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * at.as_secs_f64() / self.seconds()
    }

    fn panel(&self, svg: &mut String, top: f64, name: &str, lines: &[Line]) {
        let (bottom, right) = (top + PANEL, WIDTH - RIGHT);
        let values = lines.iter().flat_map(|line| &line.values).copied();
        let most = values.filter(|value| value.is_finite()).fold(1.0, f64::max);
        let step = step(most / RULES);
        let scale = (most / step).ceil() * step;
        let y = |value: f64| bottom - (PANEL - 18.0) * value / scale;
        let warm = self.x(self.warm_after.min(Duration::from_secs_f64(self.seconds())));
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f3f4f6\"/>\n\
             <text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
            top + 18.0,
            warm - LEFT,
            PANEL - 18.0,
            top + 10.0,
            escape(name)
        );
        for rule in 0..=(scale / step) as u32 {
            let value = f64::from(rule) * step;
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#e5e7eb\"/>\
                 <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
                y(value),
                LEFT - 8.0,
                y(value) + 4.0,
                number(value)
            );
        }
        for line in lines {
            self.line(svg, line, &y);
        }
        self.times(svg, bottom);
    }

    fn line(&self, svg: &mut String, line: &Line, y: &dyn Fn(f64) -> f64) {
        let every = self.samples.len().div_ceil(POINTS_MAX).max(1);
        let mut points = String::new();
        let mut last = 0.0;
        for (part, values) in self.samples.chunks(every).zip(line.values.chunks(every)) {
            // The most of what is drawn as one point: nothing that stands out is lost.
            let values = values.iter().copied().filter(|value| value.is_finite());
            let value = values.fold(f64::NAN, f64::max);
            if let (Some(sample), false) = (part.first(), value.is_nan()) {
                let _ = write!(points, "{:.1},{:.1} ", self.x(sample.at), y(value));
                last = value;
            }
        }
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"1.6\" points=\"{1}\"/>\
             <text x=\"{2}\" y=\"{3:.1}\" fill=\"{0}\">{4} {5}</text>",
            line.colour,
            points.trim_end(),
            WIDTH - RIGHT + 8.0,
            y(last) + 4.0,
            escape(line.name),
            number((last * 10.0).round() / 10.0)
        );
    }

    /// When, below a panel.
    fn times(&self, svg: &mut String, bottom: f64) {
        let (unit, name) = match self.seconds() {
            seconds if seconds >= 7_200.0 => (3_600.0, "h"),
            seconds if seconds >= 180.0 => (60.0, "min"),
            _ => (1.0, "s"),
        };
        let step = step(self.seconds() / unit / 8.0);
        let count = (self.seconds() / unit / step) as u32;
        for mark in 0..=count {
            let value = f64::from(mark) * step;
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#6b7280\">{} {name}</text>",
                self.x(Duration::from_secs_f64(value * unit)),
                bottom + 16.0,
                number(value)
            );
        }
    }
}

/// A round number that is not less: 1, 2 or 5 with noughts.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-3).log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|times| times * power)
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

/// As people write it: with thousands apart, and no more digits than there are.
fn number(value: f64) -> String {
    if value < 1_000.0 {
        let text = format!("{value:.1}");
        return text.strip_suffix(".0").unwrap_or(&text).to_owned();
    }
    let whole = value.round() as u64;
    if whole >= 1_000_000 {
        return format!("{},{:03},{:03}", whole / 1_000_000, whole / 1_000 % 1_000, whole % 1_000);
    }
    format!("{},{:03}", whole / 1_000, whole % 1_000)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_numbers_are_readable() {
        assert_eq!([0.3, 1.0, 3.0, 40.0, 60.0].map(step), [0.5, 1.0, 5.0, 50.0, 100.0]);
        let numbers = [0.0, 2.5, 999.0, 1_000.0, 12_345.6, 1_234_567.0].map(number);
        assert_eq!(numbers, ["0", "2.5", "999", "1,000", "12,346", "1,234,567"]);
    }

    #[test]
    fn a_picture_has_a_panel_for_each_figure_however_many_samples() {
        for count in [0, 1, 2_000] {
            let sample = |second| Sample {
                at: Duration::from_secs(second),
                memory_bytes: 1 << 27,
                ..Sample::default()
            };
            let samples: Vec<_> = (0..count).map(sample).collect();
            let svg = draw(&samples, Duration::from_secs(8), "a < b", "well & good");
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
            assert_eq!(svg.matches("<polyline").count(), 6);
            assert!(svg.contains("a &lt; b") && svg.contains("well &amp; good"));
            assert!(!svg.contains("NaN") && svg.len() < 100_000, "{}", svg.len());
        }
    }
}
