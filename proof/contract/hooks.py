"""What the contract test must know of Tasklane that an OpenAPI document cannot say.

A finding is dropped only where the request is looked at and does break a rule that the document
tells in words. How often each rule was needed is printed at the end of a run.
"""

import atexit
import collections
import datetime
import itertools
import json
import os
import re
import urllib.parse

import schemathesis
from hypothesis import strategies

NOW = datetime.datetime.now(datetime.timezone.utc)
KEY_ID = os.environ["TASKLANE_KEY"].rsplit("_", 1)[0]
# Longer than a poll should take here; the bounds of waiting have tests of their own.
WAIT_MS_MAX = 20

DROPPED = collections.Counter()
COPIES = itertools.count()


@atexit.register
def tell():
    for rule, times in DROPPED.most_common():
        print(f"contract: {times:5} refused as the words say: {rule}")


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
    """Nothing waits long, no file is written elsewhere or twice, and the test keeps its own key."""
    body = case.body if isinstance(case.body, dict) else {}
    for poll in (body, body.get("poll")):
        if isinstance(poll, dict) and is_number(poll.get("wait_ms")) and 0 <= poll["wait_ms"] <= 60_000:
            poll["wait_ms"] = min(poll["wait_ms"], WAIT_MS_MAX)
    query = case.query or {}
    if is_number(query.get("wait_seconds")) and 0 <= query["wait_seconds"] <= 60:
        query["wait_seconds"] = 0
    positive = case.meta and case.meta.generation.mode.is_positive
    if case.path == "/api/v1/events" and positive:
        # What is told at once: for the rest one would wait until something happens.
        case.query = {"kinds": "system.*"}
    if case.path == "/admin/backup" and isinstance(body.get("to"), str):
        # In this folder, and where the name is a good one, a new and a short one.
        body["to"] = body["to"].replace("/", "_")
        if positive:
            body["to"] = body["to"][:20] + f"{next(COPIES)}.copy"
    if case.path == "/admin/keys/{id}" and (case.path_parameters or {}).get("id") == KEY_ID:
        case.path_parameters["id"] = "tl_000000000000"


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def has(sent, *names):
    """Whether all of these are given; null is as good as absent."""
    return all(sent.get(name) is not None for name in names)


def rises(*values):
    given = [value for value in values if value is not None]
    return all(low <= high for low, high in zip(given, given[1:]))


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def expires_too_soon(sent):
    """A task expires in the future and after it is due; a key expires in the future."""
    due = NOW
    if has(sent, "scheduled_at"):
        due = max(due, instant(sent["scheduled_at"]))
    if has(sent, "delay_seconds"):
        due = max(due, NOW + datetime.timedelta(seconds=sent["delay_seconds"]))
    return has(sent, "expires_at") and instant(sent["expires_at"]) <= due + datetime.timedelta(minutes=5)


def ages_do_not_rise(sent):
    aging = sent["aging"]
    return not rises(*(aging.get(f"{name}_seconds") for name in ("normal", "high", "critical")))


def depths_do_not_rise(sent):
    return not rises(*(sent["depth_limits"].get(name) for name in ("normal", "high", "all")))


def scopes_contradict(sent):
    verbs = [scope["verb"] for scope in sent["scopes"]]
    bounded = any(scope["verb"] == "admin" and (has(scope, "queues") or has(scope, "types")) for scope in sent["scopes"])
    return bounded or len(set(verbs)) < len(verbs)


def names_nothing(sent):
    """A list or an object that is empty names nothing either."""
    return all(value in (None, [], {}) for value in (sent.get("filter") or {}).values())


# States from which there is a way, by call.
LIVE = {"scheduled", "blocked", "pending", "queued", "assigned", "running", "executing", "processing", "in_progress", "retrying"}
POSSIBLE = {
    "/api/v1/tasks/cancel": LIVE,
    "/api/v1/dlq/replay": {"dead_letter"},
    "/admin/tasks/requeue": {"assigned", "running", "executing", "processing", "in_progress", "retrying"},
}


def chooses_other_states(sent, path):
    return not set(sent["filter"]["states"]) <= POSSIBLE[path]


def says_not_what_is_meant(sent, path):
    """Calls with two ways to say what is meant: exactly one is to be taken."""
    if path == "/internal/workers/{id}/start":
        one, many = (has(sent, "task_id"), has(sent, "lease_token")), has(sent, "tasks")
        return one != ((not many,) * 2)
    if path == "/admin/tasks/requeue":
        return has(sent, "task_ids") == has(sent, "filter")
    if path == "/admin/dlq/retry":
        return has(sent, "task_id") == bool(sent.get("retry_all"))
    return False


# Rules between values of one request, which the document tells in words: a schema could hardly, and
# the test does not read such schemas right. The member that a refusal points at and its code; the
# rule; whether what was sent breaks it.
RULES = {
    ("/delay_seconds", "malformed"): ("delay_seconds or scheduled_at, not both", lambda sent, path: has(sent, "delay_seconds", "scheduled_at")),
    ("/expires_in_seconds", "conflict"): ("expires_in_seconds or expires_at, not both", lambda sent, path: has(sent, "expires_in_seconds", "expires_at")),
    ("?wait_seconds", "conflict"): ("wait_seconds or as_of, not both", lambda sent, path: has(sent, "wait_seconds", "as_of")),
    ("/weights", "malformed"): ("weights or aging, not both", lambda sent, path: has(sent, "weights", "aging")),
    ("/retry/max_seconds", "out-of-range"): (
        "max_seconds is not below initial_seconds",
        lambda sent, path: not rises(sent["retry"].get("initial_seconds") or 1, 300 if sent["retry"].get("max_seconds") is None else sent["retry"]["max_seconds"]),
    ),
    ("/aging", "out-of-range"): ("normal, high and critical rise", lambda sent, path: ages_do_not_rise(sent)),
    ("/depth_limits", "out-of-range"): ("normal, high and all rise", lambda sent, path: depths_do_not_rise(sent)),
    ("/expires_at", "out-of-range"): ("what expires is due before", lambda sent, path: expires_too_soon(sent)),
    ("/scopes", "malformed"): ("each verb once, and admin without queues and types", lambda sent, path: scopes_contradict(sent)),
    ("/filter", "empty"): ("a filter has at least one member", lambda sent, path: names_nothing(sent)),
    ("/filter/states", "malformed"): ("only states from which there is a way", chooses_other_states),
    ("", "empty"): ("at least one member to change", lambda sent, path: all(value in (None, []) for value in sent.values())),
    ("", "missing-field"): ("one of two ways to say what is meant", says_not_what_is_meant),
    ("/result", "unexpected"): ("result is of a completion", lambda sent, path: has(sent, "result") and sent["status"] != "completed"),
    ("/error", "unexpected"): ("error is of a failure", lambda sent, path: has(sent, "error") and sent["status"] != "failed"),
    ("/retry_after_seconds", "unexpected"): ("retry_after_seconds is of a failure", lambda sent, path: has(sent, "retry_after_seconds") and sent["status"] != "failed"),
    ("/delay_seconds", "unexpected"): ("delay_seconds is of a release", lambda sent, path: has(sent, "delay_seconds") and sent["status"] != "released"),
}

# What the document's pattern of names forbids.
NOT_IN_NAMES = re.compile("[\u0000-\u001f\u007f-\u009f{}:\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Whether a finding stands."""
    why = excused(type(failure).__name__, failure, case, response)
    if why:
        DROPPED[why] += 1
    return not why


def excused(kind, failure, case, response):
    if kind == "ServerError":
        # A queue whose bounds were set to nothing is full; that is said, and when to ask again.
        full = response.status_code == 503 and response.json()["type"] == "queue-full"
        submits = case.path in ("/api/v1/tasks", "/api/v1/tasks/batch")
        return "a queue is full" if full and submits and response.headers.get("retry-after") else None
    if kind == "UseAfterFree":
        # What is cancelled stays to be looked at. And what waits at a priority is deleted in the place
        # of a queue: one that is named like a priority stays.
        if failure.free.startswith("DELETE /api/v1/tasks/") and case.path.startswith("/api/v1/tasks/{id}"):
            shown = response.json().get("state", "cancelled")
            return "a cancelled task can be seen" if shown == "cancelled" else None
        if failure.free.startswith("DELETE /admin/queues/"):
            return "a priority was emptied, not a queue"
        return None
    if kind != "RejectedPositiveData":
        return None
    problem = response.json()
    if case.path == "/api/v1/ws":
        # The test speaks no WebSocket: a good request is one to it that asks for no upgrade.
        plain = "upgrade" not in {name.lower() for name in response.request.headers}
        return "a WebSocket is asked for with an upgrade" if plain and "upgrade" in problem["detail"] else None
    if problem["type"] == "worker-gone":
        workers = ("/internal/workers/{id}", "/admin/workers/{id}")
        return "a worker has left" if case.path.startswith(workers) else None
    body = sent_body(response)
    if problem["type"] == "idempotency-mismatch":
        tasks = body.get("tasks", [body])
        keyed = any(has(task, "id") or has(task, "idempotency_key") for task in tasks)
        keyed = keyed or "idempotency-key" in {name.lower() for name in case.headers or {}}
        return "an id or a key was used before" if keyed else None
    errors = problem.get("errors", [])
    reasons = [of_error(error, body, case, response) for error in errors]
    return reasons[0] if reasons and all(reasons) else None


def sent_body(response):
    try:
        body = json.loads(response.request.body or "{}")
    except (ValueError, TypeError):
        return {}
    return body if isinstance(body, dict) else {}


def of_error(error, body, case, response):
    """Which rule one error of a refusal is about, if what was sent breaks it."""
    pointer, code, detail = error["pointer"], error["code"], error["detail"]
    values = list(at(pointer, body))
    # To a schema 5.0 is a whole number; here whole numbers are written without a point.
    if detail.startswith("invalid type: floating") and any(isinstance(value, float) and value.is_integer() for value in values):
        return "whole numbers are written without a point"
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(response.request.url).query, keep_blank_values=True))
    names = [urllib.parse.unquote(str(value)) for value in (case.path_parameters or {}).values()]
    texts = [text for value in values for text in texts_in(value)] + names + list(query) + list(query.values())
    # A schema counts characters, names are bounded in bytes.
    bound = re.search(r"(\d+) bytes", detail)
    if code in ("too-long", "invalid-characters") and bound:
        longer = any(len(text) <= int(bound[1]) < len(text.encode()) for text in texts)
        return "lengths are in bytes" if longer else None
    # The generator now and then makes a name of what the pattern forbids, and calls it valid.
    if code == "invalid-characters" and any(map(NOT_IN_NAMES.search, names)):
        return "a name in the path has what its pattern forbids"
    pointer, sent = (pointer, query) if pointer.startswith("?") else member(pointer, body)
    rule, breaks = RULES.get((pointer, code), (None, None))
    try:
        return rule if rule and breaks(sent, case.path) else None
    except (AttributeError, KeyError, TypeError):
        # What the rule is about was not sent at all.
        return None


def at(pointer, body):
    """What a pointer points at, if that is there."""
    found = body
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return
    yield found


def texts_in(value):
    """All texts of a value, the names of members among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_in(item)


def member(pointer, body):
    """Without `/tasks/3` or `/results/3`, which stand in front of one of many; and that one."""
    parts = pointer.split("/")
    if len(parts) > 3 and parts[1] in ("tasks", "results"):
        return "/" + "/".join(parts[3:]), body[parts[1]][int(parts[2])]
    return pointer, body
