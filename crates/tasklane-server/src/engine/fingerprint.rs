//! Dead letters that failed alike: what is told apart, and what is not.

use tasklane_core::{DeadReason, Failure, State, Task};

use crate::limits::FINGERPRINT_BYTES_MAX;

/// Equal for tasks of one type that were given up for the same reason with the same sort of error.
/// Sixteen hexadecimal digits; the same on every server and in every version.
pub fn fingerprint(task: &Task) -> String {
    let reason = reason(task).map_or("", DeadReason::as_str);
    of(task.spec.lane.task_type.as_str(), reason, task.error.as_deref())
}

/// Why a task gets no more attempts.
pub(super) fn reason(task: &Task) -> Option<DeadReason> {
    match &task.state {
        State::DeadLetter { reason, .. } | State::Failed { reason, .. } => Some(*reason),
        _ => None,
    }
}

fn of(task_type: &str, reason: &str, failure: Option<&Failure>) -> String {
    let kind = failure.map_or("", |failure| failure.kind.as_str());
    let code = failure.and_then(|failure| failure.code.as_deref()).unwrap_or("");
    let message = failure.map(|failure| generalised(&failure.message)).unwrap_or_default();
    let mut hash = FNV_BASIS;
    for part in [task_type, reason, kind, code, &message] {
        // A byte that no text has keeps the parts apart.
        for byte in part.bytes().chain([0xFF]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    format!("{hash:016x}")
}

/// FNV-1a: enough to tell groups apart, and fixed for ever, which the standard hash is not.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A message with its numbers, addresses and ids replaced by `#`.
pub(super) fn generalised(message: &str) -> String {
    let mut rest = message.split_at(message.floor_char_boundary(FINGERPRINT_BYTES_MAX)).0;
    let mut general = String::with_capacity(rest.len());
    while let Some(first) = rest.chars().next() {
        let length = match first.is_ascii_alphanumeric() {
            true => word(rest, &mut general),
            false => {
                general.push(first);
                first.len_utf8()
            }
        };
        rest = rest.split_at(length).1;
    }
    general
}

/// Adds the word that `rest` begins with; gives its length.
fn word(rest: &str, general: &mut String) -> usize {
    const UUID_BYTES: usize = 36;
    if rest.get(..UUID_BYTES).is_some_and(is_uuid) {
        general.push('#');
        return UUID_BYTES;
    }
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let word = rest.split_at(end).0;
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if is_hex && has_digit && (hex.len() < word.len() || hex.len() >= 6) {
        general.push('#');
        return end;
    }
    let mut in_number = false;
    for c in word.chars() {
        let digit = c.is_ascii_digit();
        if !digit {
            general.push(c);
        } else if !in_number {
            general.push('#');
        }
        in_number = digit;
    }
    end
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_core::ErrorKind;

    #[test]
    fn numbers_addresses_and_ids_do_not_tell_errors_apart() {
        for (message, general) in [
            ("timed out after 3000 ms", "timed out after # ms"),
            ("timed out after 17ms", "timed out after #ms"),
            ("user 0198c0de-7f00-7abc-8def-0123456789ab is gone", "user # is gone"),
            ("at 0x7ffe12ab in worker3", "at # in worker#"),
            ("digest 9f86d081884c7d65 differs", "digest # differs"),
            ("10.0.0.12:5432 refused", "#.#.#.#:# refused"),
            ("a dead beef facade", "a dead beef facade"),
            ("ümlaut 5 é", "ümlaut # é"),
            ("", ""),
        ] {
            assert_eq!(generalised(message), general);
        }
    }

    #[test]
    fn type_reason_kind_and_code_do() {
        let failure = |kind, message: &str| Failure::new(kind, message);
        let first = failure(ErrorKind::Transient, "no answer after 5 s");
        let same = failure(ErrorKind::Transient, "no answer after 600 s");
        let print = |task_type, reason, failure: &Failure| of(task_type, reason, Some(failure));
        let own = print("a", "poison", &first);
        assert_eq!(own, print("a", "poison", &same));
        assert_eq!(own.len(), 16);
        assert_ne!(own, print("b", "poison", &first));
        assert_ne!(own, print("a", "not_retryable", &first));
        assert_ne!(own, print("a", "poison", &failure(ErrorKind::Bug, "no answer after 5 s")));
        assert_ne!(own, print("a", "poison", &first.clone().with_code("E1")));
        assert_ne!(own, print("apoison", "", &first));
        assert_eq!(of("a", "poison", None), of("a", "poison", None));
    }
}
