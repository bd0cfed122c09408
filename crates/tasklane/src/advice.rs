//! What to do about a refusal, for whoever typed the command. docs/errors.md tells programs.

/// What to do about a store that contradicts itself.
pub(crate) const DAMAGED: &str = "let no server open it; make a new store from a copy: tasklane \
     restore COPY --store sqlite:FOLDER";

const ADVICE: [(&str, &str); 30] = [
    ("malformed-json", "give well-formed JSON in UTF-8, with each member once"),
    ("json-too-deep", "nest at most 64 deep"),
    ("invalid-cursor", "use a cursor as this server gave it, or none to begin anew"),
    (
        "unauthenticated",
        "put a good key into TASKLANE_API_KEY, or its file into TASKLANE_API_KEY_FILE, or use a \
         profile that has one; the key may have expired or been revoked",
    ),
    ("insufficient-scope", "use a key whose scopes allow it: tasklane keys create makes one"),
    ("origin-forbidden", "call the server itself, by its own host"),
    (
        "not-found",
        "check the id and the server; retention may have removed it, or the key does not reach it",
    ),
    ("method-not-allowed", "is this server older than this program? tasklane doctor compares them"),
    ("request-timeout", "try again: headers or body came too slowly"),
    ("invalid-state", "tasklane get ID shows what state it is in, tasklane history ID why"),
    ("lease-lost", "another worker may have the task; do not retry"),
    (
        "worker-gone",
        "tasklane workers lists those that are there; one that comes back has a new id",
    ),
    ("payload-too-large", "send less at once, or raise limits.payload_bytes_max of the server"),
    ("uri-too-long", "use a shorter filter"),
    ("unsupported-media-type", "is there a proxy that changes requests?"),
    ("validation-failed", "correct what is named above"),
    ("out-of-range", "bring the value into its range"),
    (
        "invalid-characters",
        "names have no control or direction characters, colons or braces, and at most 128 bytes",
    ),
    ("invalid-configuration", "correct the lines named above; what was in force still is"),
    ("idempotency-mismatch", "the key or id belongs to another task: use a new one"),
    ("queue-full", "slow down and try later: add workers, or raise the queue's depth limits"),
    ("headers-too-large", "headers have at most 16 KiB: is the key really one?"),
    ("internal", "a bug: please report it with the request's id"),
    ("not-supported", "this server or its store cannot do that"),
    ("overloaded", "try again in a moment"),
    ("shutting-down", "try again in a moment, perhaps at another server"),
    ("store-unavailable", "try again; if it stays, tasklane doctor and the server's log say more"),
    ("storage-full", "make room on the server's disk; it goes on by itself"),
    (
        "outcome-unknown",
        "it may have been done or not: look with tasklane get, or send it again with the same --id",
    ),
    ("rate-limited", "slow down and try again in a moment"),
];

/// What to do about a refusal of this type.
pub(crate) fn advice(problem_type: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(known, _)| *known == problem_type).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_the_documentation_has_advice() {
        let page = include_str!("../../../docs/errors.md");
        let table = page.split("## ").find(|part| part.starts_with("Over HTTP")).unwrap();
        let types = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let types: Vec<_> = types.map(|(word, _)| word).filter(|word| *word != "type").collect();
        assert!(types.len() > 20, "{types:?}");
        let without: Vec<_> = types.into_iter().filter(|word| advice(word).is_none()).collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
