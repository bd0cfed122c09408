//! Charts as SVG: bars and curves. Colours are of middle brightness, so that they can be read on
//! light and on dark pages; no fonts, scripts or styles from elsewhere.

use std::fmt::Write;

use super::record::short;

const WIDTH: f64 = 760.0;
const TEXT: &str = "#7d8590";
const GRID: &str = "#7d8590";
const OWN: &str = "#2f81f7";
const OTHER: &str = "#8c959f";
/// Of curves, in their order.
const COLOURS: [&str; 4] = ["#2f81f7", "#d18616", "#2da44e", "#a371f7"];

/// One bar with its spread.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// The value in words.
    pub(crate) told: String,
    pub(crate) value: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// Whether it is ours.
    pub(crate) own: bool,
}

/// One curve; each point is its place, its value, and the least and the most value there.
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<[f64; 4]>,
    pub(crate) dashed: bool,
}

/// Horizontal bars from zero, one below the other.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    const LEFT: f64 = 240.0;
    const RIGHT: f64 = 640.0;
    let top = bars.iter().map(|bar| bar.most).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LEFT + (RIGHT - LEFT) * value / top;
    let low = 44.0 + 26.0 * bars.len() as f64;
    let mut svg = open(title, low + 26.0);
    let step = round_step(top / 5.0);
    for n in 0..=(top / step) as usize {
        let at = x(n as f64 * step);
        line(&mut svg, [at, 34.0], [at, low], GRID, r#"stroke-opacity="0.25""#);
        text(&mut svg, at, low + 16.0, "middle", &scale(n as f64 * step));
    }
    for (n, bar) in bars.iter().enumerate() {
        let y = 40.0 + 26.0 * n as f64;
        let (colour, opacity) = if bar.own { (OWN, 0.75) } else { (OTHER, 0.5) };
        text(&mut svg, LEFT - 8.0, y + 13.0, "end", &bar.label);
        let _ = writeln!(
            svg,
            r#"<rect x="{LEFT}" y="{y}" width="{:.1}" height="18" rx="2" fill="{colour}" fill-opacity="{opacity}"/>"#,
            (x(bar.value) - LEFT).max(1.0),
        );
        whisker(&mut svg, [x(bar.least), y + 9.0], [x(bar.most), y + 9.0]);
        text(&mut svg, x(bar.most.max(bar.value)) + 8.0, y + 13.0, "start", &bar.told);
    }
    svg + "</svg>\n"
}

/// Curves over a logarithmic axis, from zero up.
pub(crate) fn curves(title: &str, x_label: &str, y_label: &str, curves: &[Curve]) -> String {
    let [left, right, high, low]: [f64; 4] = [80.0, 540.0, 66.0, 330.0];
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let places: Vec<f64> = {
        let mut places: Vec<f64> = points().map(|[place, ..]| *place).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    };
    let first = places.first().copied().unwrap_or(1.0).log10();
    let wide = (places.last().copied().unwrap_or(10.0).log10() - first).max(f64::MIN_POSITIVE);
    let step = round_step(points().map(|[.., most]| *most).fold(f64::MIN_POSITIVE, f64::max) / 5.0);
    let top = step * (points().map(|[.., most]| *most).fold(0.0, f64::max) / step).ceil().max(1.0);
    let x = |place: f64| left + (right - left) * (place.log10() - first) / wide;
    let y = |value: f64| low - (low - high) * value / top;

    let mut svg = open(title, 390.0);
    for n in 0..=(top / step).round() as usize {
        let at = y(n as f64 * step);
        line(&mut svg, [left, at], [right, at], GRID, r#"stroke-opacity="0.25""#);
        text(&mut svg, left - 8.0, at + 4.0, "end", &scale(n as f64 * step));
    }
    for place in &places {
        text(&mut svg, x(*place), low + 20.0, "middle", &whole(*place));
    }
    text(&mut svg, f64::midpoint(left, right), low + 44.0, "middle", x_label);
    text(&mut svg, left - 60.0, high - 16.0, "start", y_label);
    for (n, curve) in curves.iter().enumerate() {
        let colour = COLOURS.get(n % COLOURS.len()).copied().unwrap_or(OWN);
        let dash = if curve.dashed { r#"stroke-dasharray="6 4""# } else { "" };
        let ends = curve.points.iter().zip(curve.points.iter().skip(1));
        for ([from, value, ..], [to, next, ..]) in ends {
            let style = format!(r#"stroke-width="2" {dash}"#);
            line(&mut svg, [x(*from), y(*value)], [x(*to), y(*next)], colour, &style);
        }
        for [place, value, least, most] in &curve.points {
            whisker(&mut svg, [x(*place), y(*least)], [x(*place), y(*most)]);
            let (cx, cy) = (x(*place), y(*value));
            let _ = writeln!(svg, r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="3.5" fill="{colour}"/>"#);
        }
        let key = high + 8.0 + 22.0 * n as f64;
        let style = format!(r#"stroke-width="2" {dash}"#);
        line(&mut svg, [right + 24.0, key], [right + 52.0, key], colour, &style);
        text(&mut svg, right + 60.0, key + 4.0, "start", &curve.label);
    }
    svg + "</svg>\n"
}

fn open(title: &str, height: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{}</title>\n",
        escaped(title)
    );
    let _ = writeln!(
        svg,
        r#"<text x="16" y="22" font-size="15" font-weight="600" fill="{TEXT}">{}</text>"#,
        escaped(title)
    );
    svg
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{TEXT}">{words}</text>"#
    );
}

fn line(svg: &mut String, from: [f64; 2], to: [f64; 2], colour: &str, style: &str) {
    let ([x1, y1], [x2, y2]) = (from, to);
    let _ = writeln!(
        svg,
        r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}" {style}/>"#
    );
}

/// From the least to the most.
fn whisker(svg: &mut String, from: [f64; 2], to: [f64; 2]) {
    line(svg, from, to, TEXT, r#"stroke-width="1.5""#);
}

/// 1, 2 or 5 times a power of ten, at least as large.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(power)
}

/// A depth without what a rate is rounded to: 10 k, 1 M.
pub(crate) fn whole(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e3 => format!("{} k", v / 1e3),
        v => v.to_string(),
    }
}

/// What stands at a line of the grid: waits may be below one.
fn scale(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}").replace(".0", "") } else { short(value) }
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(svg: &str, part: &str) -> usize {
        svg.matches(part).count()
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value: f64| Bar {
            label: "a < b".to_owned(),
            told: "x".to_owned(),
            value,
            least: value,
            most: value,
            own: false,
        };
        let svg = bars("rates", &[bar(100.0), bar(25.0)]);
        assert!(svg.contains(r#"width="400.0""#) && svg.contains(r#"width="100.0""#), "{svg}");
        assert_eq!(count(&svg, "a &lt; b"), 2);
        assert_eq!(count(&svg, "<text"), count(&svg, "</text>"));
    }

    #[test]
    fn curves_go_from_end_to_end_of_their_axes() {
        let points = vec![[1e4, 0.0, 0.0, 0.0], [1e7, 100.0, 90.0, 100.0]];
        let curve = Curve { label: "claim".to_owned(), points, dashed: true };
        let svg = curves("growth", "queued", "a second", &[curve]);
        assert!(svg.contains(r#"x1="80.0" y1="330.0" x2="540.0" y2="66.0""#), "{svg}");
        assert!(svg.contains("10 k") && svg.contains("10 M") && svg.contains("dasharray"));
    }

    #[test]
    fn steps_are_round() {
        let steps = [0.9, 1.1, 30.0, 60_000.0].map(round_step);
        assert_eq!(steps.map(|step| step.round()), [1.0, 2.0, 50.0, 100_000.0]);
    }
}
