//! Live events as server-sent events.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Version, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use hyper::body::Frame as BodyFrame;
use tokio::sync::mpsc;

use super::filter::{Events, Wish};
use super::frame::Frame;
use super::reader::{Ending, Next, Reader};
use crate::engine::{Caller, Engine, Through};
use crate::http::App;
use crate::http::problem::Refused;
use crate::http::query::Parameters;
use crate::limits::{READER_CHUNK_BYTES, READER_END_WITHIN, READER_RETRY_AFTER};
use crate::server::Line;

const KEEP_ALIVE: &[u8] = b": nothing new\n\n";

/// An event as it is sent.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Sent {
    /// Where to go on after it.
    id: Option<String>,
    /// Its kind.
    event: String,
    /// An `Event`, as JSON.
    #[schema(content_media_type = "application/json")]
    data: String,
}

/// Follow events as they happen
#[utoipa::path(get, path = "/events", tag = "producers",
    params(Events),
    responses((status = 200, description = "Events, one after the other",
        content_type = "text/event-stream", body = Sent)))]
pub(crate) async fn events(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<Events>,
    request: Request,
) -> Result<Response, Refused> {
    let wish = Wish::read(&parameters, request.headers())?.within(&caller.reach);
    let through = Through::Stream;
    let reader = Reader::new(Arc::clone(&engine), caller.access, wish, through).await?;
    let line = request.extensions().get::<Arc<Line>>().cloned().unwrap_or_default();
    Ok(respond(&engine, reader, line, request.version()))
}

fn respond(engine: &Engine, reader: Reader, line: Arc<Line>, version: Version) -> Response {
    // One piece waits here while another is being written: a reader's whole buffer.
    let (sender, receiver) = mpsc::channel(1);
    let alone = version < Version::HTTP_2;
    engine.streams().spawn(serve(reader, sender, line, alone));
    let mut response = Body::new(Pieces { receiver, ended: false }).into_response();
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "text/event-stream");
    set(header::CACHE_CONTROL, "no-store");
    // Proxies that would gather answers are asked not to.
    set(header::HeaderName::from_static("x-accel-buffering"), "no");
    if alone {
        set(header::CONNECTION, "close");
    }
    response
}

/// A piece of the answer's body.
enum Piece {
    More(Bytes),
    Last(Bytes),
}

/// The answer's body.
struct Pieces {
    receiver: mpsc::Receiver<Piece>,
    ended: bool,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Self::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let piece = std::task::ready!(self.receiver.poll_recv(context));
        Poll::Ready(match piece {
            Some(Piece::More(bytes)) => Some(Ok(BodyFrame::data(bytes))),
            Some(Piece::Last(bytes)) => {
                self.ended = true;
                // Who waits for the end to be taken learns it here.
                self.receiver.close();
                Some(Ok(BodyFrame::data(bytes)))
            }
            None => None,
        })
    }
}

/// Why a piece was not taken.
enum Stuck {
    Gone,
    Slow,
    Shutdown,
}

async fn serve(mut reader: Reader, sender: mpsc::Sender<Piece>, line: Arc<Line>, alone: bool) {
    loop {
        let next = tokio::select! {
            next = reader.next() => next,
            () = sender.closed() => return,
        };
        let (last, ending) = match next {
            Next::Frames(frames) => match send_all(&mut reader, &sender, &frames).await {
                Ok(()) => continue,
                Err(stuck) => match last_words(&reader, stuck) {
                    Some(last) => last,
                    None => return,
                },
            },
            Next::Quiet => match send(&reader, &sender, Bytes::from_static(KEEP_ALIVE)).await {
                Ok(()) => continue,
                Err(stuck) => match last_words(&reader, stuck) {
                    Some(last) => last,
                    None => return,
                },
            },
            Next::End(frame, ending) => (frame, ending),
        };
        return end(&sender, last_piece(&last, ending), &line, alone).await;
    }
}

async fn send_all(
    reader: &mut Reader,
    sender: &mpsc::Sender<Piece>,
    frames: &[Frame],
) -> Result<(), Stuck> {
    let mut bytes = BytesMut::new();
    for frame in frames {
        write_frame(&mut bytes, frame);
        if bytes.len() >= READER_CHUNK_BYTES {
            send(reader, sender, bytes.split().freeze()).await?;
            if let Some(cursor) = frame.cursor {
                reader.sent(cursor);
            }
        }
    }
    if bytes.is_empty() { Ok(()) } else { send(reader, sender, bytes.freeze()).await }
}

async fn send(reader: &Reader, sender: &mpsc::Sender<Piece>, bytes: Bytes) -> Result<(), Stuck> {
    let engine = reader.engine();
    tokio::select! {
        // First, so that a piece for which there is room is never held back.
        biased;
        sent = sender.send(Piece::More(bytes)) => sent.map_err(|_| Stuck::Gone),
        () = engine.drained() => Err(Stuck::Shutdown),
        () = tokio::time::sleep(engine.settings().slow_reader_after) => Err(Stuck::Slow),
        () = reader.falls_behind() => Err(Stuck::Slow),
    }
}

fn last_words(reader: &Reader, stuck: Stuck) -> Option<(Frame, Ending)> {
    let ending = match stuck {
        Stuck::Gone => return None,
        Stuck::Slow => Ending::Slow,
        Stuck::Shutdown => Ending::Shutdown,
    };
    match reader.end(ending) {
        Next::End(frame, ending) => Some((frame, ending)),
        Next::Frames(_) | Next::Quiet => None,
    }
}

/// Says the last words if somebody listens in time, and sees to it that the line is free then.
async fn end(sender: &mpsc::Sender<Piece>, last: Bytes, line: &Line, alone: bool) {
    let tell = async {
        if sender.send(Piece::Last(last)).await.is_ok() {
            sender.closed().await;
        }
    };
    let told = tokio::time::timeout(READER_END_WITHIN, tell).await.is_ok();
    if told && !alone {
        return;
    }
    if told {
        // The line closes by itself after this answer, unless nobody reads it.
        let _ = tokio::time::timeout(READER_END_WITHIN, line.closed()).await;
    }
    line.cut();
}

fn write_frame(bytes: &mut BytesMut, frame: &Frame) {
    // Writing into memory does not fail.
    if let Some(cursor) = frame.cursor {
        let _ = writeln!(bytes, "id: {cursor}");
    }
    let _ = writeln!(bytes, "event: {}", frame.kind);
    bytes.extend_from_slice(b"data: ");
    bytes.extend_from_slice(&frame.text);
    bytes.extend_from_slice(b"\n\n");
}

fn last_piece(frame: &Frame, ending: Ending) -> Bytes {
    let mut bytes = BytesMut::new();
    if ending == Ending::Shutdown {
        let _ = writeln!(bytes, "retry: {}", READER_RETRY_AFTER.as_millis());
    }
    write_frame(&mut bytes, frame);
    bytes.freeze()
}
