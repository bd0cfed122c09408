//! The lists: queues, workers, dead letters, events.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Paragraph, Row, Table, TableState, Wrap};
use tasklane_client::wire::{Depth, Event, Time, Worker};

use super::text::{age, short};
use super::titled;
use crate::top::state::{Panel, QueueLine, State, worker_name};

pub(super) fn queues(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let refusal = state.seen.as_ref().and_then(|seen| seen.queues.as_ref().err());
    let lines = state.queues();
    let title = format!("Queues {}", lines.len());
    let area = titled(frame, state, Panel::Queues, &title, area);
    if told(frame, refusal, lines.is_empty(), "no queue has ever had a task", area) {
        return;
    }
    let row = |line: &&QueueLine| {
        let name = if line.paused { format!("⏸ {}", line.name) } else { line.name.to_string() };
        let mut cells = vec![name];
        match &line.depths {
            Some(depths) => {
                let each = [&depths.critical, &depths.high, &depths.normal, &depths.low];
                cells.extend(each.iter().map(|depth| waiting(depth)));
                cells.push(short(each.iter().map(|depth| depth.running).sum()));
            }
            None => cells.extend(["", "", &format!("all {}", short(line.depth))].map(String::from)),
        }
        let style = if line.paused { Style::new().fg(Color::Yellow) } else { Style::new() };
        Row::new(cells).style(style)
    };
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(8),
    ];
    let header = ["depth, age", "critical", "high", "normal", "low", "running"];
    let table = Table::new(lines.iter().map(row), widths).header(dim(header));
    draw(frame, state, Panel::Queues, table, area);
}

/// How many wait, and how long the first of them has.
fn waiting(depth: &Depth) -> String {
    if depth.depth == 0 {
        return "·".to_owned();
    }
    format!("{} {}", short(depth.depth), age(depth.oldest_age_seconds.0))
}

pub(super) fn workers(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let refusal = state.seen.as_ref().and_then(|seen| seen.workers.as_ref().err());
    let lines = state.workers();
    let title = format!("Workers {}", lines.len());
    let area = titled(frame, state, Panel::Workers, &title, area);
    if told(frame, refusal, lines.is_empty(), "no worker is there", area) {
        return;
    }
    let now = now(state);
    let row = |worker: &&Worker| {
        let colour = match &*worker.state {
            "active" => Color::Reset,
            "paused" | "draining" => Color::Yellow,
            _ => Color::Red,
        };
        let load = format!("{}/{}", worker.leases, worker.capacity);
        let cells =
            [worker_name(worker), worker.state.to_string(), load, since(now, worker.seen_at)];
        Row::new(cells).style(Style::new().fg(colour))
    };
    let widths =
        [Constraint::Fill(1), Constraint::Length(9), Constraint::Length(7), Constraint::Length(4)];
    let header = dim(["name", "state", "load", "seen"]);
    let table = Table::new(lines.iter().map(row), widths).header(header);
    draw(frame, state, Panel::Workers, table, area);
}

pub(super) fn dead_letters(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let refusal = state.seen.as_ref().and_then(|seen| seen.dead_letters.as_ref().err());
    let lines = state.dead_letters();
    let all = state.seen.as_ref().map_or(0, |seen| seen.stats.dlq_size);
    let title = format!("Dead letters {}", short(all));
    let area = titled(frame, state, Panel::DeadLetters, &title, area);
    if told(frame, refusal, lines.is_empty(), "none", area) {
        return;
    }
    let now = now(state);
    let rows = lines.iter().map(|task| {
        let error = task.error.as_ref();
        let words = error.map(|error| error.message.to_string());
        let words = words.or_else(|| task.reason.as_ref().map(ToString::to_string));
        let cells =
            [task.task_type.to_string(), since(now, task.updated_at), words.unwrap_or_default()];
        Row::new(cells)
    });
    let widths = [Constraint::Length(14), Constraint::Length(4), Constraint::Fill(1)];
    let table = Table::new(rows, widths).header(dim(["type", "age", "why"]));
    draw(frame, state, Panel::DeadLetters, table, area);
}

pub(super) fn events(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let title = if state.every_event { "Events: every one" } else { "Events: notable ones" };
    let area = titled(frame, state, Panel::Events, title, area);
    let none = state.shown_events().next().is_none();
    let quiet = if state.every_event { "nothing yet" } else { "nothing yet; e shows every event" };
    if told(frame, state.no_events.as_ref(), none, quiet, area) {
        return;
    }
    let now = now(state);
    let rows = state.shown_events().map(|event| {
        let data = &event.data;
        let place = [data.queue.as_deref(), data.task_type.as_deref()];
        let place: Vec<_> = place.into_iter().flatten().collect();
        let cells = [
            since(now, event.timestamp),
            event.event_type.to_string(),
            place.join(" "),
            detail(event),
        ];
        Row::new(cells).style(Style::new().fg(colour(&event.event_type)))
    });
    let widths = [
        Constraint::Length(5),
        Constraint::Length(20),
        Constraint::Length(24),
        Constraint::Fill(1),
    ];
    draw(frame, state, Panel::Events, Table::new(rows, widths), area);
}

fn colour(event_type: &str) -> Color {
    match event_type {
        "task.failed" | "task.dead_lettered" | "worker.dead" | "system.gap" => Color::Red,
        "task.retrying" | "task.lease_lost" | "worker.unhealthy" | "queue.paused" => Color::Yellow,
        "task.completed" => Color::Green,
        _ => Color::Reset,
    }
}

/// What is worth a few words more.
fn detail(event: &Event) -> String {
    let data = &event.data;
    let error = data.error.as_ref().map(|error| {
        let code = error.code.as_deref().unwrap_or_default();
        format!("{} {code}", error.kind.0.as_str()).trim_end().to_owned()
    });
    let reason = || data.reason.as_ref().map(ToString::to_string);
    let gap = || data.gap.as_ref().map(|why| format!("events are missing: {why}"));
    let took = || data.duration_ms.map(|millis| format!("{millis} ms"));
    let task = || data.task_id.as_ref().map(|task| task.0.to_string());
    let worker = || data.worker_id.as_ref().map(|worker| worker.0.to_string());
    error
        .or_else(reason)
        .or_else(gap)
        .or_else(took)
        .or_else(task)
        .or_else(worker)
        .unwrap_or_default()
}

/// The server's time; without it ages are unknown.
fn now(state: &State) -> Option<Time> {
    state.seen.as_ref()?.health.as_ref().map(|health| health.now)
}

fn since(now: Option<Time>, then: Time) -> String {
    let Some(now) = now else { return String::new() };
    let micros = i128::from(now.0.as_micros()) - i128::from(then.0.as_micros());
    age(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// Says why there are no lines, if there are none.
fn told(
    frame: &mut Frame<'_>,
    refusal: Option<&String>,
    none: bool,
    quiet: &str,
    area: Rect,
) -> bool {
    let (words, style) = match refusal {
        Some(words) => (words.as_str(), Style::new().fg(Color::Red)),
        None if none => (quiet, Style::new().add_modifier(Modifier::DIM)),
        None => return false,
    };
    let words = Paragraph::new(format!(" {words}")).style(style).wrap(Wrap { trim: false });
    frame.render_widget(words, area);
    true
}

fn dim<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::DIM))
}

fn draw(frame: &mut Frame<'_>, state: &State, panel: Panel, table: Table<'_>, area: Rect) {
    let chosen = (state.focus == panel).then(|| state.chosen(panel));
    let style = Style::new().add_modifier(Modifier::REVERSED);
    let mut position = TableState::new().with_selected(chosen);
    frame.render_stateful_widget(table.row_highlight_style(style), area, &mut position);
}
