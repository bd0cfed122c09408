//! Operators' calls on the server and its store.

use std::path::Path;
use std::time::{Instant, UNIX_EPOCH};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{StateName, Timestamp, Worker};
use tasklane_store::{Durability, Pruned, StoreError};

use crate::aside::aside;
use crate::engine::{Breaker, Caller, Engine, EngineError, MachineFigures, NotReady, Reloaded};
use crate::http::problem::{self, Refused};
use crate::http::query::{Nothing, Parameters};
use crate::http::{App, body, respond, stats};
use crate::settings::Authentication;

use wire::{Seconds, Time};

/// Bytes of the name of a copy: file systems take 255, and something is put behind it while it is made.
const FILE_NAME_BYTES_MAX: usize = 200;

/// Look at how the server is doing
#[utoipa::path(get, path = "/health", tag = "operators",
    responses((status = 200, description = "How it is doing, also when it is not well",
        body = wire::Health)))]
pub(crate) async fn get_health(
    State(engine): App,
    caller: Caller,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let (status, reason) = match engine.ready().await {
        Ok(()) => ("ok", None),
        Err(NotReady::Draining) => ("draining", None),
        Err(NotReady::Store(reason)) => ("unavailable", Some(reason.into())),
    };
    // A store that does not answer is told of above; workers are then not known.
    let mut workers = match status {
        "unavailable" => Vec::new(),
        _ => engine.workers().await?,
    };
    workers.retain(|(worker, _)| caller.reach.touches(&worker.spec.selection));
    let open = |(_, breaker): &&(Worker, Breaker)| matches!(breaker, Breaker::Open { .. });
    let open_breakers = workers.iter().filter(open).count();
    let workers: Vec<_> = workers.into_iter().map(|(worker, _)| worker).collect();
    let health = wire::Health {
        status: status.into(),
        reason,
        version: env!("CARGO_PKG_VERSION").into(),
        durability: engine.durability().as_str().into(),
        now: Time(engine.now()),
        uptime_seconds: Seconds(engine.uptime()),
        workers: stats::worker_counts(&workers),
        // Of all workers together.
        parked_polls: caller.reach.is_everything().then(|| engine.parked() as u64),
        open_breakers: open_breakers as u64,
        // The disk may take its time to tell how full it is.
        machine: caller.reach.is_everything().then(|| aside(true, || machine(&engine))),
    };
    Ok(respond::json(StatusCode::OK, &health))
}

fn machine(engine: &Engine) -> wire::Machine {
    let MachineFigures { disk_bytes, files } = engine.machine();
    let ends_at = engine.certificate_ends_at();
    let ends_at = ends_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    wire::Machine {
        authentication: match engine.authentication() {
            Authentication::Off => "off".into(),
            Authentication::Keys => "keys".into(),
        },
        certificate_ends_at: ends_at.map(|at| Time(Timestamp::EPOCH.plus(at))),
        events_lag: engine.feed().lag(),
        disk: disk_bytes.map(|(free_bytes, total_bytes)| wire::Disk { free_bytes, total_bytes }),
        files: files.map(|(open, max)| wire::OpenFiles { open, max }),
    }
}

/// Clean up now
///
/// Removes what has been kept long enough; with `emergency` everything that has ended.
#[utoipa::path(post, path = "/maintenance", tag = "operators",
    request_body = Option<wire::Maintenance>,
    responses((status = 200, description = "What was removed", body = wire::Removed)))]
pub(crate) async fn clean_up(
    State(engine): App,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read_optional(&engine, request).await?;
    let wanted: wire::Maintenance = match &bytes {
        Some(bytes) => body::parse(bytes)?,
        None => wire::Maintenance::default(),
    };
    let started = Instant::now();
    let pruned = engine.clean_up(wanted.emergency).await?;
    let removed = removed(&pruned, Seconds(started.elapsed()));
    Ok(respond::written(&engine, StatusCode::OK, &removed))
}

/// Read the configuration anew
///
/// What may change while the server runs is applied; the rest needs a restart. A configuration that
/// is wrong changes nothing.
#[utoipa::path(post, path = "/reload", tag = "operators",
    responses((status = 200, description = "What has become of the settings that differ",
            body = wire::Reloaded),
        (status = 501, description = "This server reads no configuration", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn reload(
    State(engine): App,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let Reloaded { applied, needs_restart } = engine.reload().await?;
    Ok(respond::json(StatusCode::OK, &wire::Reloaded { applied, needs_restart }))
}

fn removed(pruned: &Pruned, took_seconds: Seconds) -> wire::Removed {
    let terminal = StateName::ALL.into_iter().filter(|state| state.is_terminal());
    let count = |state: StateName| pruned.tasks.get(state.index()).copied().unwrap_or_default();
    wire::Removed {
        tasks: terminal.map(|state| (state.as_str().into(), count(state))).collect(),
        events: pruned.events,
        idempotency_records: pruned.idempotency_records,
        workers: pruned.workers,
        keys: pruned.api_keys,
        audit_records: pruned.audit_records,
        more: pruned.more,
        took_seconds,
    }
}

/// Copy the store to a new file on the server's machine
#[utoipa::path(post, path = "/backup", tag = "operators", request_body = wire::Backup,
    responses((status = 200, description = "The copy is on disk", body = wire::BackedUp),
        (status = 501, description = "This store has no file to copy", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn back_up(
    State(engine): App,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read(&engine, request).await?;
    let wanted: wire::Backup = body::parse(&bytes)?;
    let to = Path::new(&*wanted.to);
    check_text(&wanted.to)?;
    // A store without a file says so itself, whatever the name.
    if engine.durability() != Durability::Memory {
        check_new_file(to)?;
    }
    let took = engine.backup(to).await.map_err(|error| match &error {
        EngineError::Store(StoreError::Unavailable(reason)) => {
            tracing::warn!(%reason, "a backup failed");
            Refused::new(problem::STORE_UNAVAILABLE, "the copy could not be written: see the log")
        }
        _ => error.into(),
    })?;
    let answer = wire::BackedUp { to: wanted.to, took_seconds: Seconds(took) };
    Ok(respond::json(StatusCode::OK, &answer))
}

fn check_text(name: &str) -> Result<(), Refused> {
    let invalid = problem::INVALID_CHARACTERS;
    if name.is_empty() {
        refused(problem::VALIDATION_FAILED, "empty", "must be the name of a file")
    } else if name.contains('\0') {
        refused(invalid, "invalid-characters", "contains a NUL")
    } else {
        Ok(())
    }
}

fn refused(kind: problem::Kind, code: &'static str, detail: &str) -> Result<(), Refused> {
    Err(Refused::field(kind, "/to", code, detail))
}

/// A copy gets a new file in a folder that is there. Two looks at the file system: short enough to
/// be made here.
fn check_new_file(path: &Path) -> Result<(), Refused> {
    let failed = problem::VALIDATION_FAILED;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.file_name().is_none() || path.exists() {
        refused(failed, "exists", "is there already; choose a new file")
    } else if path.file_name().is_some_and(|file| file.len() > FILE_NAME_BYTES_MAX) {
        refused(failed, "too-long", "names of files have at most 200 bytes")
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        refused(failed, "malformed", "is in a folder that is not there")
    } else {
        Ok(())
    }
}
