//! The terminal, and the loop between keys, server and screen.

use std::time::Duration;

use anyhow::{Context, bail};
use ratatui::crossterm::event::{self, Event};
use tasklane_client::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::look;
use super::state::{Command, Key, State};
use super::view;

/// Updates that may wait for the screen.
const WAITING_MAX: usize = 256;
/// How often the screen is drawn at most for what the server says.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Shows the server until somebody quits or a signal comes. The terminal is as it was then, also
/// after a panic.
pub(super) async fn run(client: Client, follower: Client, every: Duration) -> anyhow::Result<()> {
    // Sets a panic hook that restores the terminal, too.
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let shown = show(&mut terminal, client, follower, every).await;
    ratatui::restore();
    shown
}

async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    client: Client,
    follower: Client,
    every: Duration,
) -> anyhow::Result<()> {
    let (send, mut updates) = mpsc::channel(WAITING_MAX);
    let (every_event, followed) = watch::channel(false);
    let mut state = State::new(client.server());
    tokio::spawn(look::watch(client.clone(), every, send.clone()));
    tokio::spawn(look::follow(follower, followed, send.clone()));
    let mut keys = keys();
    let mut end = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut draws = tokio::time::interval(DRAW_EVERY);
    let mut is_new = true;
    loop {
        tokio::select! {
            _ = end.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            _ = interrupted.recv() => return Ok(()),
            key = keys.recv() => {
                match key {
                    Some(Some(key)) => match state.press(key) {
                        Some(Command::Quit) => return Ok(()),
                        Some(Command::Follow(every)) => { every_event.send_replace(every); }
                        Some(Command::Act(action)) => {
                            let (client, send) = (client.clone(), send.clone());
                            tokio::spawn(async move {
                                // Nobody listens only when the end has come.
                                let _ = send.send(look::act(client, action).await).await;
                            });
                        }
                        None => {}
                    },
                    // The size of the terminal has changed.
                    Some(None) => {}
                    None => bail!("the terminal gives no more keys"),
                }
                terminal.draw(|frame| view::draw(frame, &state))?;
            }
            update = updates.recv() => {
                let Some(update) = update else { bail!("nobody looks at the server any more") };
                is_new = true;
                state.apply(update);
            }
            _ = draws.tick() => {
                if std::mem::take(&mut is_new) {
                    terminal.draw(|frame| view::draw(frame, &state))?;
                }
            }
        }
    }
}

/// Keys as they are pressed; nothing where only the size has changed.
fn keys() -> mpsc::Receiver<Option<Key>> {
    let (send, receive) = mpsc::channel(WAITING_MAX);
    // Reading blocks; the thread ends with the program.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let pressed = match event {
                Event::Key(key) if key.is_press() => Key::of(&key),
                Event::Resize(..) => None,
                _ => continue,
            };
            if send.blocking_send(pressed).is_err() {
                return;
            }
        }
    });
    receive
}
