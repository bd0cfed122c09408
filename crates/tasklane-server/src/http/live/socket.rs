//! Live events on a WebSocket: one text for each event.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::SinkExt;
use tasklane_store::Cursor;

use super::filter::{Events, Wish};
use super::frame::Frame;
use super::reader::{Ending, Next, Reader};
use crate::engine::{Caller, Through};
use crate::http::problem::{self, Refused};
use crate::http::query::Parameters;
use crate::http::{App, origin};
use crate::limits::{READER_CHUNK_BYTES, READER_END_WITHIN, SOCKET_RECEIVED_BYTES_MAX};

/// The service restarts: come back.
const RESTART: u16 = 1012;

/// Follow events on a WebSocket
#[utoipa::path(get, path = "/ws", tag = "producers",
    params(Events),
    responses((status = 101, description = "Each text is an event")))]
pub(crate) async fn socket(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<Events>,
    request: Request,
) -> Result<Response, Refused> {
    let (mut parts, _) = request.into_parts();
    origin::check(&parts.headers, &parts.uri, &engine.settings().allowed_origins)?;
    let wish = Wish::read(&parameters, &parts.headers)?.within(&caller.reach);
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|_| {
        let detail = "ask for an upgrade to WebSocket, version 13";
        Refused::field(problem::VALIDATION_FAILED, "", "missing-field", detail)
    })?;
    let reader = Reader::new(Arc::clone(&engine), caller.access, wish, Through::Socket).await?;
    let tracked = engine.streams().token();
    let upgrade = upgrade
        .max_message_size(SOCKET_RECEIVED_BYTES_MAX)
        .max_frame_size(SOCKET_RECEIVED_BYTES_MAX)
        .write_buffer_size(READER_CHUNK_BYTES);
    Ok(upgrade.on_upgrade(move |socket| async move {
        serve(reader, socket).await;
        drop(tracked);
    }))
}

async fn serve(mut reader: Reader, mut socket: WebSocket) {
    loop {
        let next = tokio::select! {
            next = reader.next() => next,
            received = socket.recv() => match received {
                // Pings are answered by the socket itself; the rest is of no interest.
                Some(Ok(Message::Text(_) | Message::Binary(_))) => continue,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(_))) => return part(socket).await,
                Some(Err(_)) | None => return,
            },
        };
        let ending = match next {
            Next::Frames(frames) => {
                let messages = frames.into_iter().filter_map(|frame| {
                    let cursor = frame.cursor;
                    text(frame).map(|message| (message, cursor))
                });
                send(&mut reader, &mut socket, messages).await
            }
            Next::Quiet => {
                let ping = (Message::Ping(Bytes::new()), None);
                send(&mut reader, &mut socket, std::iter::once(ping)).await
            }
            Next::End(_, ending) => Err(Some(ending)),
        };
        match ending {
            Ok(()) => {}
            Err(None) => return,
            Err(Some(ending)) => return end(&reader, socket, ending).await,
        }
    }
}

/// Writes what there is and flushes once. An error is the reason to end; none: nobody is there.
async fn send(
    reader: &mut Reader,
    socket: &mut WebSocket,
    messages: impl Iterator<Item = (Message, Option<Cursor>)>,
) -> Result<(), Option<Ending>> {
    // What the socket has taken goes out before anything that it is given later.
    let mut taken = None;
    let write = async {
        for (message, cursor) in messages {
            socket.feed(message).await?;
            taken = cursor.or(taken);
        }
        socket.flush().await
    };
    let engine = reader.engine();
    let sent = tokio::select! {
        biased;
        written = write => written.map_err(|_| None),
        () = engine.drained() => Err(Some(Ending::Shutdown)),
        () = tokio::time::sleep(engine.settings().slow_reader_after) => Err(Some(Ending::Slow)),
        () = reader.falls_behind() => Err(Some(Ending::Slow)),
    };
    if let Some(cursor) = taken {
        reader.sent(cursor);
    }
    sent
}

/// Lets a client go that has closed. The socket itself has an answer for it, which is sent by reading
/// on: without it, the client would take the end for a broken connection.
async fn part(mut socket: WebSocket) {
    let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _ = tokio::time::timeout(READER_END_WITHIN, answered).await;
}

/// Says the last words if somebody listens in time.
async fn end(reader: &Reader, mut socket: WebSocket, ending: Ending) {
    let Next::End(frame, _) = reader.end(ending) else { return };
    let (code, reason) = match ending {
        Ending::Shutdown => (RESTART, "shutdown"),
        Ending::Slow => (close_code::AGAIN, "slow_reader"),
        Ending::Denied => (close_code::POLICY, "unauthenticated"),
    };
    let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    let last = async {
        if let Some(text) = text(frame) {
            socket.feed(text).await?;
        }
        socket.send(close).await?;
        // Until the other side has closed too: what it still sends would otherwise void our words.
        while let Some(Ok(_)) = socket.recv().await {}
        Ok::<(), axum::Error>(())
    };
    let _ = tokio::time::timeout(READER_END_WITHIN, last).await;
}

fn text(frame: Frame) -> Option<Message> {
    Utf8Bytes::try_from(frame.text).ok().map(Message::Text)
}
