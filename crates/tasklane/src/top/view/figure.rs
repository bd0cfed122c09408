//! Counts, rates and waits.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Sparkline};

use super::text::{short, span};
use crate::top::state::{Seen, State, Track};

/// Columns of words before a chart.
const WORDS: u16 = 34;

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let lines: [Rect; 4] = Layout::vertical([Constraint::Length(1); 4]).areas(area);
    let [counts, submitted, completed, waits] = lines;
    let seen = state.seen.as_deref();
    if let Some(seen) = seen {
        frame.render_widget(Paragraph::new(totals(seen)), counts);
    }
    let rate = |track: &Track| track.last().map_or("–".to_owned(), |rate| short(rate as u64));
    let words = format!(" submitted {:>6}/s", rate(&state.submitted));
    chart(frame, &words, &state.submitted, Color::Blue, submitted);
    let words =
        format!(" completed {:>6}/s  failed {}/s", rate(&state.completed), rate(&state.failed));
    chart(frame, &words, &state.completed, Color::Green, completed);
    let quantile = |seconds: Option<tasklane_client::wire::Seconds>| {
        seconds.map_or("–".to_owned(), |seconds| span(seconds.0))
    };
    let times = seen.map(|seen| seen.stats.waits);
    let words = format!(
        " wait p50 {} p95 {}",
        quantile(times.and_then(|times| times.p50_seconds)),
        quantile(times.and_then(|times| times.p95_seconds))
    );
    chart(frame, &words, &state.wait, Color::Yellow, waits);
}

fn totals(seen: &Seen) -> Line<'_> {
    let stats = &seen.stats;
    let priorities =
        [&stats.queues.critical, &stats.queues.high, &stats.queues.normal, &stats.queues.low];
    let waiting: u64 = priorities.iter().map(|priority| priority.depth).sum();
    let running: u64 = priorities.iter().map(|priority| priority.running).sum();
    let workers = &stats.workers;
    let mut text = format!(
        " waiting {}  running {}  scheduled {}  retrying {}  blocked {}  dead {}",
        short(waiting),
        short(running),
        short(stats.scheduled),
        short(stats.retrying),
        short(stats.blocked),
        short(stats.dlq_size),
    );
    text.push_str(&format!("  load {}/{}", workers.used_capacity, workers.total_capacity));
    Line::from(text)
}

fn chart(frame: &mut Frame<'_>, words: &str, track: &Track, colour: Color, area: Rect) {
    let [left, right] =
        Layout::horizontal([Constraint::Length(WORDS), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(words.to_owned()), left);
    let values = track.thousandths(usize::from(right.width));
    frame.render_widget(Sparkline::default().data(values).style(Style::new().fg(colour)), right);
}
