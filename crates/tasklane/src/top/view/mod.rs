//! The screen. Draws a state and nothing else.

mod figure;
mod overlay;
mod panel;
#[cfg(test)]
mod tests;
mod text;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::state::{Mode, Panel, State};
use text::age;

/// Below this there is no room for anything.
const WIDTH_MIN: u16 = 40;
const HEIGHT_MIN: u16 = 12;

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let words = format!("The terminal is too small: {WIDTH_MIN}×{HEIGHT_MIN} at least.");
        frame.render_widget(Paragraph::new(words), area);
        return;
    }
    let [header, figures, queues, middle, events, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(4),
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(head(state), header);
    figure::draw(frame, state, figures);
    panel::queues(frame, state, queues);
    let [workers, dead_letters] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(middle);
    panel::workers(frame, state, workers);
    panel::dead_letters(frame, state, dead_letters);
    panel::events(frame, state, events);
    frame.render_widget(foot(state), footer);
    match &state.mode {
        Mode::Confirm(action) => overlay::confirm(frame, &action.question()),
        Mode::Help => overlay::help(frame),
        Mode::Look | Mode::Filter => {}
    }
}

/// Which server, and whether it is there.
fn head(state: &State) -> Paragraph<'_> {
    let mut spans = vec![
        Span::styled(" tasklane ", Style::new().add_modifier(Modifier::REVERSED)),
        Span::raw(format!(" {}  ", state.server)),
    ];
    match (&state.away, &state.seen) {
        (Some(why), _) => spans
            .push(Span::styled(format!(" {why} "), Style::new().fg(Color::White).bg(Color::Red))),
        (None, None) => spans.push(Span::raw("looking for it …")),
        (None, Some(seen)) => {
            let Some(health) = &seen.health else {
                spans.push(Span::styled("there", Style::new().fg(Color::Green)));
                return Paragraph::new(Line::from(spans));
            };
            let colour = if health.status == "ok" { Color::Green } else { Color::Yellow };
            spans.push(Span::styled(health.status.to_string(), Style::new().fg(colour)));
            let (version, durability) = (&health.version, &health.durability);
            let up = age(health.uptime_seconds.0);
            spans.push(Span::raw(format!("  {version}  up {up}  {durability}")));
        }
    }
    Paragraph::new(Line::from(spans))
}

/// What keys do, what was done, or the filter.
fn foot(state: &State) -> Paragraph<'_> {
    if state.mode == Mode::Filter {
        return Paragraph::new(format!(" / {}▏  Enter keeps it, Esc clears it", state.filter));
    }
    match &state.said {
        Some(Ok(words)) => {
            return Paragraph::new(format!(" {words}")).style(Style::new().fg(Color::Green));
        }
        Some(Err(words)) => {
            return Paragraph::new(format!(" {words}")).style(Style::new().fg(Color::Red));
        }
        None => {}
    }
    let filter = match state.filter.as_str() {
        "" => String::new(),
        filter => format!("  filter: {filter}"),
    };
    let keys = " q quit  Tab panel  ↑↓ choose  p pause  d drain  r replay  e events  / filter  ?";
    Paragraph::new(format!("{keys}{filter}")).style(Style::new().add_modifier(Modifier::DIM))
}

/// A panel's title, and the room below it.
fn titled(frame: &mut Frame<'_>, state: &State, panel: Panel, title: &str, area: Rect) -> Rect {
    let [line, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let style = if state.focus == panel {
        Style::new().fg(Color::Black).bg(Color::Cyan)
    } else {
        Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD)
    };
    let rule = "─".repeat(usize::from(line.width));
    frame.render_widget(Paragraph::new(rule).style(Style::new().fg(Color::DarkGray)), line);
    frame.render_widget(Line::from(Span::styled(format!(" {title} "), style)), line);
    rest
}
