//! Keys, as far as they mean something here.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Character(char),
    Enter,
    Escape,
    Erase,
    Next,
    Previous,
    Up,
    Down,
    First,
    Last,
    /// Ctrl-C.
    Interrupt,
}

impl Key {
    pub(crate) fn of(event: &KeyEvent) -> Option<Self> {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        Some(match event.code {
            KeyCode::Char('c') if control => Self::Interrupt,
            KeyCode::Char(_) if control => return None,
            KeyCode::Char(character) => Self::Character(character),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Escape,
            KeyCode::Backspace => Self::Erase,
            KeyCode::Tab | KeyCode::Right => Self::Next,
            KeyCode::BackTab | KeyCode::Left => Self::Previous,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Home => Self::First,
            KeyCode::End => Self::Last,
            _ => return None,
        })
    }
}
