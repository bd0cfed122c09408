use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::state::tests::{seen, watching};
use crate::top::state::{Key, Update};

/// The screen as lines.
fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn everything_has_its_place_at_80_by_24() {
    let lines = screen(&watching(), 80, 24);
    let expected = [
        (0, " tasklane  http://127.0.0.1:7170  ok  0.1.0  up 3m  fsync"),
        (1, " waiting 1.5k  running 3  scheduled 4  retrying 1  blocked 0  dead 1  load 3/20"),
        (2, " submitted   1.0k/s"),
        (3, " completed    500/s  failed 0/s"),
        (4, " wait p50 4.0 ms p95 1.5 s"),
        (5, " Queues 2 "),
        (6, "depth, age"),
    ];
    for (at, text) in expected {
        assert!(lines[at].starts_with(text), "{at}: {text}\n{}", lines.join("\n"));
    }
    let text = lines.join("\n");
    let row = lines.iter().find(|line| line.starts_with("default")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["default", "·", "3", "5s", "1.5k", "3m", "·", "3"], "{text}");
    for wanted in ["⏸ mail", "all 1.5k", "alpha", "draining", "2/10", "email.send", "no such mai"]
    {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    assert!(text.contains("task.failed") && text.contains("bug E7"), "{text}");
    assert!(lines[23].starts_with(" q quit"), "{text}");
}

#[test]
fn it_fits_whatever_size_the_terminal_has() {
    let state = watching();
    for (width, height) in [(1, 1), (39, 11), (40, 12), (80, 24), (81, 25), (300, 100)] {
        let lines = screen(&state, width, height);
        let is_small = width < WIDTH_MIN || height < HEIGHT_MIN;
        assert_eq!(lines.iter().any(|line| line.contains("Queues")), !is_small, "{width}×{height}");
    }
}

#[test]
fn a_server_that_is_away_is_seen_at_once_and_its_return_too() {
    let mut state = watching();
    state.apply(Update::Away("AWAY, trying again: refused".to_owned()));
    let text = screen(&state, 80, 24).join("\n");
    assert!(text.contains("AWAY, trying again: refused"), "{text}");
    assert!(text.contains("default"), "what was seen last stays: {text}");
    state.apply(seen(5, 2_000.0));
    assert!(!screen(&state, 80, 24).join("\n").contains("AWAY"));
}

#[test]
fn questions_help_and_what_was_done_are_shown() {
    let mut state = watching();
    state.press(Key::Character('p'));
    let text = screen(&state, 80, 24).join("\n");
    assert!(text.contains("Pause the queue default?") && text.contains("y yes"), "{text}");
    state.press(Key::Character('n'));
    state.apply(Update::Acted(Ok("The queue default is paused.".to_owned())));
    assert!(screen(&state, 80, 24)[23].contains("The queue default is paused."));
    state.press(Key::Character('?'));
    assert!(screen(&state, 80, 24).join("\n").contains("drain the chosen worker"));
    state.press(Key::Escape);
    state.press(Key::Character('/'));
    state.press(Key::Character('x'));
    assert!(screen(&state, 80, 24)[23].starts_with(" / x"));
}

#[test]
fn what_a_key_may_not_see_is_told_in_its_place() {
    let mut state = watching();
    let Update::Seen(mut look) = seen(2, 1_000.0) else { panic!("a look") };
    look.workers = Err("insufficient-scope: the key has no scope read".to_owned());
    state.apply(Update::Seen(look));
    state.apply(Update::NoEvents("too many readers".to_owned()));
    let text = screen(&state, 80, 24).join("\n");
    assert!(text.contains("insufficient-scope") && text.contains("too many readers"), "{text}");
}
