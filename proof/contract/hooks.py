"""What the contract test must know of Tasklane that an OpenAPI document cannot say."""

import datetime
import os
import re
import urllib.parse

import schemathesis
from hypothesis import strategies

NOW = datetime.datetime.now(datetime.timezone.utc)
KEY_ID = os.environ["TASKLANE_KEY"].rsplit("_", 1)[0]
# Longer than a poll should take here; the bounds of waiting have tests of their own.
WAIT_MS_MAX = 20


def instants():
    """Times within four years: what is bounded by the present has no form in a schema."""
    span = strategies.integers(min_value=1, max_value=4 * 365 * 86_400)
    return span.map(lambda s: (NOW + datetime.timedelta(seconds=s)).strftime("%Y-%m-%dT%H:%M:%SZ"))


def identifiers():
    """Ids of version 7, which is the one that tasks have."""
    return strategies.uuids(version=4).map(lambda u: str(u)[:14] + "7" + str(u)[15:])


schemathesis.openapi.format("date-time", instants())
schemathesis.openapi.format("uuid", identifiers())


@schemathesis.hook
def before_call(context, case, kwargs):
    """Nothing waits long, no file is written elsewhere, and the test keeps its own key."""
    body = case.body if isinstance(case.body, dict) else {}
    for poll in (body, body.get("poll")):
        if isinstance(poll, dict) and is_number(poll.get("wait_ms")) and 0 <= poll["wait_ms"] <= 60_000:
            poll["wait_ms"] = min(poll["wait_ms"], WAIT_MS_MAX)
    query = case.query or {}
    if is_number(query.get("wait_seconds")) and 0 <= query["wait_seconds"] <= 60:
        query["wait_seconds"] = 0
    if case.path == "/api/v1/events" and case.meta and case.meta.generation.mode.is_positive:
        # What is told at once: for the rest one would wait until something happens.
        case.query = {"kinds": "system.*"}
    if case.path == "/admin/backup" and isinstance(body.get("to"), str):
        body["to"] = body["to"].replace("/", "_")
    if case.path == "/admin/keys/{id}" and (case.path_parameters or {}).get("id") == KEY_ID:
        case.path_parameters["id"] = "tl_000000000000"


# What the document's pattern of names forbids.
NOT_IN_NAMES = re.compile("[\u0000-\u001f\u007f-\u009f{}:\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# Rules between values of one request. The document tells them in words: a schema could hardly, and
# the test does not read such schemas right. The member that a refusal points at, its code, and the
# rule; a request that breaks one is valid by the schema and refused all the same.
RULES = {
    ("/delay_seconds", "malformed"): "or scheduled_at, not both",
    ("/expires_in_seconds", "conflict"): "or expires_at, not both",
    ("?wait_seconds", "conflict"): "or as_of, not both",
    ("/weights", "malformed"): "or aging, not both",
    ("/retry/max_seconds", "out-of-range"): "not below initial_seconds",
    ("/aging", "out-of-range"): "normal, high and critical rise",
    ("/depth_limits", "out-of-range"): "normal, high and all rise",
    ("/expires_at", "out-of-range"): "in the future",
    ("/scopes", "malformed"): "each verb once, and admin without queues and types",
    ("/filter", "empty"): "at least one member",
    ("/filter/states", "malformed"): "only states from which there is a way",
    ("", "empty"): "at least one member to change",
    ("", "missing-field"): "one of the ways to say what is meant",
    ("/result", "unexpected"): "only of a completion",
    ("/error", "unexpected"): "only of a failure",
    ("/retry_after_seconds", "unexpected"): "only of a failure",
    ("/delay_seconds", "unexpected"): "only of a release",
    ("/to", "exists"): "a new file",
    ("/to", "too-long"): "the name of a file",
    ("/to", "malformed"): "in a folder that is there",
}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Refusals by those rules are right; so are those by what was there before the call."""
    kind = type(failure).__name__
    if kind == "UnsupportedMethodResponse":
        # What has no row in the table of permissions is closed to those who show no key.
        return response.status_code != 401
    if kind == "ServerError":
        # A queue whose bounds were set to nothing is full; that is said, and when to ask again.
        return response.status_code != 503 or not response.headers.get("retry-after")
    if kind == "UseAfterFree":
        # DELETE cancels a task, which stays to be looked at; so does a worker that has left.
        return not case.path.startswith(("/api/v1/tasks/", "/api/v1/dlq", "/admin/"))
    if kind != "RejectedPositiveData":
        return True
    problem = response.json()
    if problem["type"] in ("worker-gone", "idempotency-mismatch"):
        return False
    errors = problem.get("errors", [])
    # To a schema 5.0 is a whole number, and lengths are counted in characters; here it is none, and
    # they are in bytes.
    if any(error["detail"].startswith("invalid type: floating") for error in errors):
        return False
    if any(error["code"] in ("too-long", "invalid-characters") and "bytes" in error["detail"] for error in errors):
        return False
    # The generator now and then makes a name of what the pattern forbids, and calls it valid.
    names = [urllib.parse.unquote(str(value)) for value in (case.path_parameters or {}).values()]
    if any(error["code"] == "invalid-characters" for error in errors) and any(map(NOT_IN_NAMES.search, names)):
        return False
    broken = [(member(error["pointer"]), error["code"]) for error in errors]
    return not broken or not all(rule in RULES for rule in broken)


def member(pointer):
    """Without `/tasks/3` or `/results/3`, which stand in front of one of many."""
    parts = pointer.split("/")
    return "/" + "/".join(parts[3:]) if len(parts) > 3 and parts[1] in ("tasks", "results") else pointer
