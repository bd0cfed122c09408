//! What lies over the screen until a key is pressed.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

const WIDTH_MAX: u16 = 66;

const HELP: [&str; 12] = [
    "Tab, ← →    next or last panel",
    "↑ ↓, j k    choose a line; Home and End the first or last",
    "/           filter all panels by a text; Esc clears it",
    "p           pause the chosen queue, or resume it",
    "d           drain the chosen worker",
    "r           replay the chosen dead letter",
    "e           every event, or only what is notable",
    "q, Ctrl-C   quit",
    "",
    "Each cell of a queue is how many tasks wait and for how long the",
    "first of them has. Rates are those of this server.",
    "p, d and r ask before they do anything.",
];

pub(super) fn confirm(frame: &mut Frame<'_>, question: &str) {
    let text = Text::from(vec![
        Line::from(question.to_owned()),
        Line::from(""),
        Line::from("y yes   any other key no"),
    ]);
    // A question may be as long as the name of a queue.
    let lines = question.chars().count() as u16 / (WIDTH_MAX - 4) + 3;
    draw(frame, " Sure? ", text, lines, Color::Yellow);
}

pub(super) fn help(frame: &mut Frame<'_>) {
    let text = Text::from_iter(HELP.map(Line::from));
    draw(frame, " Keys ", text, HELP.len() as u16, Color::Cyan);
}

fn draw(frame: &mut Frame<'_>, title: &str, text: Text<'_>, lines: u16, colour: Color) {
    let area = centred(frame.area(), lines + 2);
    let block = Block::bordered().title(title).border_style(Style::new().fg(colour));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), area);
}

fn centred(area: Rect, height: u16) -> Rect {
    let width = Constraint::Length(WIDTH_MAX.min(area.width));
    let [area] = Layout::horizontal([width]).flex(Flex::Center).areas(area);
    let height = Constraint::Length(height.min(area.height));
    let [area] = Layout::vertical([height]).flex(Flex::Center).areas(area);
    area
}
