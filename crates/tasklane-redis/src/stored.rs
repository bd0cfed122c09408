//! A task as two fields of two hashes: what it is, and what has happened to it.

use bytes::{Buf, BufMut, Bytes};
use tasklane_core::lifecycle::Rules;
use tasklane_core::{Digest, Task, TaskId, Timestamp};
use tasklane_store::codec;

use crate::catalog::Catalog;
use crate::fault::{Fault, corrupt};

/// Payloads up to this size are kept with their task; larger ones apart, so that lists and settles
/// do not move them.
const INLINE_BYTES_MAX: usize = 1024;
/// In the first byte of a task: whether its payload is apart, and how many zeros its spec ends with,
/// which are left out: most of what a spec may have is not there.
const APART: u8 = 1;
const ZEROS_SHIFT: u8 = 1;
const ZEROS_MAX: usize = 15;
/// Trails and results up to this size are kept in the record: a field of its own costs Redis more than
/// these bytes do, when it is written and when it is removed.
const BESIDE_BYTES_MAX: usize = 256;
/// In the first byte of a record.
const CUT: u8 = 1;
const TRAIL_SHIFT: u8 = 1;
const RESULT_SHIFT: u8 = 3;

/// A task and what the store keeps beside it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) task: Task,
    pub(crate) lane: u32,
    pub(crate) digest: Option<Digest>,
    pub(crate) payload: Payload,
    /// When its lease was last renewed by itself, if it is held.
    pub(crate) renewed: Renewed,
    /// How many entries its trail has.
    pub(crate) trail: u32,
    /// The entries.
    pub(crate) entries: Beside,
    /// What it came to.
    pub(crate) result: Beside,
    /// The older entries are gone.
    pub(crate) cut: bool,
}

/// When a lease was renewed. Of two renewals the one at the higher version of the store came later,
/// whatever the clock did in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Renewed {
    pub(crate) version: i64,
    pub(crate) at: Timestamp,
}

impl Renewed {
    pub(crate) const BYTES: usize = 16;

    /// When a lease ends that was renewed so by itself, and with all others of its worker.
    pub(crate) fn lease_ends(self, with_all: Self, rules: &Rules) -> Timestamp {
        self.max(with_all).at.plus(rules.lease)
    }

    /// As it is kept of a worker, if that has renewed anything.
    pub(crate) fn of_worker(packed: Option<Bytes>) -> Result<Self, Fault> {
        let Some(mut packed) = packed else { return Ok(Self::default()) };
        match packed.len() {
            Self::BYTES => Ok(Self::unpack(&mut packed)),
            _ => Err(Fault::Corrupt("a renewal is not one".into())),
        }
    }

    pub(crate) fn pack(self, packed: &mut impl BufMut) {
        packed.put_i64(self.version);
        packed.put_i64(self.at.as_micros());
    }

    /// From bytes that are long enough.
    pub(crate) fn unpack(packed: &mut Bytes) -> Self {
        Self { version: packed.get_i64(), at: Timestamp::from_micros(packed.get_i64()) }
    }
}

/// What a handler gets.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    /// This.
    Inline(Bytes),
    /// So many bytes, in a hash of their own.
    Apart(usize),
}

impl Payload {
    pub(crate) fn of(bytes: &Bytes) -> Self {
        match bytes.len() <= INLINE_BYTES_MAX {
            true => Self::Inline(bytes.clone()),
            false => Self::Apart(bytes.len()),
        }
    }
}

/// What a task may have once something has happened to it.
#[derive(Debug, Clone, Default)]
pub(crate) enum Beside {
    /// It has none.
    #[default]
    Nothing,
    /// This, in its record.
    Inline(Bytes),
    /// It is in a hash of its own.
    Apart,
}

impl Beside {
    /// Where bytes belong.
    pub(crate) fn of(bytes: &Bytes) -> Self {
        match bytes.len() <= BESIDE_BYTES_MAX {
            true => Self::Inline(bytes.clone()),
            false => Self::Apart,
        }
    }

    pub(crate) const fn is_apart(&self) -> bool {
        matches!(self, Self::Apart)
    }

    /// The bytes, which may have to be read.
    pub(crate) fn or_read(&self, read: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        match self {
            Self::Nothing => None,
            Self::Inline(bytes) => Some(bytes.clone()),
            Self::Apart => read(),
        }
    }

    const fn flag(&self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Inline(_) => 1,
            Self::Apart => 2,
        }
    }

    fn pack(&self, packed: &mut Vec<u8>) {
        if let Self::Inline(bytes) = self {
            packed.put_u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
            packed.put_slice(bytes);
        }
    }

    /// `None` if there is less than there should be.
    fn unpack(flag: u8, packed: &mut Bytes) -> Option<Self> {
        Some(match flag {
            0 => Self::Nothing,
            1 => {
                let length = usize::from(packed.try_get_u16().ok()?);
                Self::Inline((packed.len() >= length).then(|| packed.split_to(length))?)
            }
            2 => Self::Apart,
            _ => return None,
        })
    }
}

impl Stored {
    pub(crate) fn admitted(task: Task, lane: u32, digest: Option<Digest>, payload: &Bytes) -> Self {
        Self::new(task, lane, digest, Payload::of(payload))
    }

    /// To which nothing has happened.
    fn new(task: Task, lane: u32, digest: Option<Digest>, payload: Payload) -> Self {
        let (renewed, entries, result) = Default::default();
        Self { task, lane, digest, payload, renewed, trail: 0, entries, result, cut: false }
    }

    /// What never changes.
    pub(crate) fn pack_task(&self) -> Vec<u8> {
        let spec =
            codec::encode_spec(Vec::new(), &self.task.spec, &self.task.admission, self.digest);
        let inline = match &self.payload {
            Payload::Inline(bytes) => bytes.len(),
            Payload::Apart(_) => 4,
        };
        let zeros = spec.iter().rev().take(ZEROS_MAX).take_while(|byte| **byte == 0).count();
        let spec = spec.get(..spec.len() - zeros).unwrap_or_default();
        let apart = if matches!(self.payload, Payload::Apart(_)) { APART } else { 0 };
        let mut packed = Vec::with_capacity(11 + spec.len() + inline);
        packed.put_u8(apart | (zeros as u8) << ZEROS_SHIFT);
        put_number(&mut packed, self.lane);
        put_number(&mut packed, u32::try_from(spec.len()).unwrap_or(u32::MAX));
        packed.put_slice(spec);
        match &self.payload {
            Payload::Inline(bytes) => packed.put_slice(bytes),
            Payload::Apart(length) => packed.put_u32(u32::try_from(*length).unwrap_or(u32::MAX)),
        }
        packed
    }

    /// What changes.
    pub(crate) fn pack_record(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(128);
        let beside = self.entries.flag() << TRAIL_SHIFT | self.result.flag() << RESULT_SHIFT;
        packed.put_u8(beside | if self.cut { CUT } else { 0 });
        packed.put_u16(u16::try_from(self.trail).unwrap_or(u16::MAX));
        self.renewed.pack(&mut packed);
        self.entries.pack(&mut packed);
        self.result.pack(&mut packed);
        packed.extend(codec::encode_record(Vec::new(), &self.task));
        packed
    }

    pub(crate) fn unpack(
        id: TaskId,
        packed: &Bytes,
        record: Option<&Bytes>,
        catalog: &Catalog,
    ) -> Result<Self, Fault> {
        let mut stored = Self::unpack_task(id, packed, catalog)?;
        if let Some(record) = record {
            stored.unpack_record(id, record)?;
        }
        Ok(stored)
    }

    /// As it was admitted.
    pub(crate) fn unpack_task(
        id: TaskId,
        packed: &Bytes,
        catalog: &Catalog,
    ) -> Result<Self, Fault> {
        let short = || corrupt(id, "cut short");
        let mut rest = packed.clone();
        let flags = rest.try_get_u8().map_err(|_| short())?;
        let lane = get_number(&mut rest).ok_or_else(short)?;
        let length = get_number(&mut rest).ok_or_else(short)? as usize;
        if rest.len() < length {
            return Err(short());
        }
        let zeros = usize::from(flags >> ZEROS_SHIFT);
        let mut spec = Vec::with_capacity(length + zeros);
        spec.extend_from_slice(&rest.split_to(length));
        spec.resize(length + zeros, 0);
        let spec = codec::decode_spec(&spec, catalog.lane_and_queue(lane)?.0.clone())?;
        let payload = match flags & APART {
            APART if rest.len() == 4 => Payload::Apart(rest.get_u32() as usize),
            0 => Payload::Inline(rest),
            _ => return Err(short()),
        };
        let task = Task::admitted(id, spec.spec, spec.admission);
        Ok(Self::new(task, lane, spec.digest, payload))
    }

    fn unpack_record(&mut self, id: TaskId, record: &Bytes) -> Result<(), Fault> {
        let short = || corrupt(id, "cut short in its record");
        let mut rest = record.clone();
        if rest.len() < 3 + Renewed::BYTES {
            return Err(short());
        }
        let flags = rest.get_u8();
        self.cut = flags & CUT != 0;
        self.trail = u32::from(rest.get_u16());
        self.renewed = Renewed::unpack(&mut rest);
        self.entries = Beside::unpack(flags >> TRAIL_SHIFT & 3, &mut rest).ok_or_else(short)?;
        self.result = Beside::unpack(flags >> RESULT_SHIFT & 3, &mut rest).ok_or_else(short)?;
        self.task = codec::decode_record(&rest, self.task.clone())?;
        Ok(())
    }
}

/// A number in as few bytes as it takes: seven bits in each, the lowest first.
fn put_number(packed: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        packed.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    packed.put_u8(number as u8);
}

/// `None` if there is no end to it.
fn get_number(packed: &mut Bytes) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let byte = packed.try_get_u8().ok()?;
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// An id from the bytes of a field or member.
pub(crate) fn task_id(bytes: &[u8]) -> Result<TaskId, Fault> {
    let bytes: Option<[u8; 16]> = bytes.try_into().ok();
    let id = bytes.and_then(|bytes| TaskId::from_bytes(bytes).ok());
    id.ok_or_else(|| Fault::Corrupt("an id is not one".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_small_ones_take_a_byte() {
        for number in [0, 1, 127, 128, 16_383, 16_384, 1 << 28, u32::MAX] {
            let mut packed = Vec::new();
            put_number(&mut packed, number);
            assert_eq!(packed.len() == 1, number < 128);
            let mut rest = Bytes::from(packed);
            assert_eq!((get_number(&mut rest), rest.len()), (Some(number), 0));
        }
        assert_eq!(get_number(&mut Bytes::from_static(&[0x80, 0x80])), None);
        assert_eq!(get_number(&mut Bytes::from_static(&[0xff; 6])), None);
    }
}
