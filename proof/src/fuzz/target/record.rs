//! Stored records, as every store packs them.
//!
//! An input is a byte for which kind of record, then the record. What can be read means the same
//! once it has been written and read again; what cannot is called damaged.

use tasklane_core::{
    Lane, NewTask, Policies, QueueName, SeededRandom, Stamp, Task, TaskId, TaskType, Timestamp,
};
use tasklane_store::codec::{self, Damaged, LaneNumbers};
use tasklane_store::{Position, Subject};

use crate::Failure;
use crate::fuzz::ground::Ground;
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, Wrong, broken};

pub(super) const TARGET: Target = Target {
    name: "record",
    form: Form::Bytes,
    words: &["\u{3}", "\u{0}", "\u{1}", "mail", "\u{7f}", "\u{e}\u{f}"],
    bytes_max: 256 * 1024,
    short: 150_000,
    memory: Memory::Own,
    seeds,
    check,
};

/// As many kinds as there are places for them, in the order of those.
const KINDS: u8 = 11;

fn seeds(ground: &mut Ground) -> Result<Vec<Vec<u8>>, Failure> {
    let records = ground.shelf()?.records.iter();
    let packed = records.filter(|record| record.place < KINDS);
    Ok(packed.map(|record| [&[record.place], record.bytes.as_slice()].concat()).collect())
}

pub(super) fn check(_: &mut Ground, input: &[u8]) -> Verdict {
    let Some((kind, bytes)) = input.split_first() else { return Ok(Seen::Refused) };
    let task = sample()?;
    let lane = &task.spec.lane;
    match kind % KINDS {
        0 => survives(bytes, codec::decode_lane, codec::encode_lane),
        1 => survives(bytes, codec::decode_queue, codec::encode_queue),
        2 => survives(bytes, codec::decode_worker, |(spec, state)| {
            codec::encode_worker(spec, *state)
        }),
        3 => survives(
            bytes,
            |bytes| codec::decode_spec(bytes, lane.clone()),
            |stored| codec::encode_spec(Vec::new(), &stored.spec, &stored.admission, stored.digest),
        ),
        4 | 5 => survives(
            bytes,
            |bytes| codec::decode_record(bytes, task.clone()),
            |task| {
                // What is asked of a task wherever it is shown.
                let _ = (task.state_since(), task.attempt(), task.is_expired(Timestamp::MAX));
                codec::encode_record(Vec::new(), task)
            },
        ),
        6 => survives(bytes, codec::decode_entry, codec::encode_entry),
        7 => survives(bytes, codec::decode_counts, codec::encode_counts),
        8 => feed_survives(bytes, lane),
        9 => survives(bytes, codec::decode_api_key, codec::encode_api_key),
        _ => survives(bytes, codec::decode_audit, codec::encode_audit),
    }
}

fn survives<T: PartialEq>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, Damaged>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> Verdict {
    let Ok(value) = decode(bytes) else { return Ok(Seen::Refused) };
    let written = encode(&value);
    let Ok(again) = decode(&written) else {
        return broken("what was read and written cannot be read again");
    };
    // What is not a number is not equal to itself.
    let is_itself = value == decode(bytes).map_err(|_| "read once only")?;
    if (is_itself && value != again) || encode(&again) != written {
        return broken("what was read and written is read as something else");
    }
    Ok(Seen::Taken)
}

/// Events name their lane by a number; the first sixteen are all this one.
struct Lanes<'l>(&'l Lane);

impl LaneNumbers for Lanes<'_> {
    fn lane(&self, number: u64) -> Option<Lane> {
        (number < 16).then(|| self.0.clone())
    }
}

/// Events of tasks cannot be written without their tasks; those of workers and queues can.
fn feed_survives(bytes: &[u8], lane: &Lane) -> Verdict {
    let (first, at) = (Position(7), Timestamp::EPOCH);
    let decode = |bytes: &[u8]| codec::decode_feed(bytes, first, at, &Lanes(lane));
    let Ok(events) = decode(bytes) else { return Ok(Seen::Refused) };
    let mut notices = events.clone();
    notices.retain(|event| !matches!(event.subject, Subject::Task(_)));
    let mut written = Vec::new();
    for notice in &notices {
        codec::encode_notice(&mut written, &notice.subject);
    }
    for (number, event) in (first.0..).zip(&events) {
        if event.position.0 != number {
            return broken("events are not numbered one by one");
        }
    }
    if notices.is_empty() {
        return Ok(Seen::Taken);
    }
    let again = decode(&written).map_err(|damaged| Wrong::Broken(damaged.to_string()))?;
    let same = again.iter().zip(&notices).all(|(one, other)| one.subject == other.subject);
    if same && again.len() == notices.len() {
        Ok(Seen::Taken)
    } else {
        broken("notices were read and written, and are read as something else")
    }
}

/// A task for records to be about.
fn sample() -> Result<Task, Failure> {
    let mut task = NewTask::new(TaskType::new("email.send")?, "{}");
    task.queue = QueueName::new("mail")?;
    let spec = task.resolve(&Policies::default())?.spec;
    let id = TaskId::generate(1_700_000_000_000, 1, &mut SeededRandom::new(1));
    let created = Stamp { at: Timestamp::from_millis(1_700_000_000_000), ..Stamp::default() };
    let admission =
        tasklane_core::Admission { created, scheduled_at: None, expires_at: None, blocked: false };
    Ok(Task::admitted(id, spec, admission))
}
