//! Numbers, text and options as bytes.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    CancelReason, DeadReason, Digest, ErrorKind, Failure, Fence, LeaseToken, Metadata, Place,
    Priority, Progress, Sequence, Stamp, TaskId, Timestamp, WorkerId,
};

/// Bytes that are not what this program, or an older one, wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored record is damaged or from a newer version: {0}")]
pub struct Damaged(pub &'static str);

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub(super) fn versioned(buffer: Vec<u8>) -> Self {
        let mut writer = Self(buffer);
        writer.byte(super::VERSION);
        writer
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    /// Seven bits a byte, the lowest first.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Small negative numbers stay short.
    pub(super) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn id(&mut self, id: &[u8; 16]) {
        self.0.extend_from_slice(id);
    }

    pub(super) fn time(&mut self, time: Timestamp) {
        self.signed(time.as_micros());
    }

    pub(super) fn span(&mut self, span: Duration) {
        self.number(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn float(&mut self, float: f64) {
        self.0.extend_from_slice(&float.to_le_bytes());
    }

    pub(super) fn stamp(&mut self, stamp: Stamp) {
        self.time(stamp.at);
        self.number(stamp.sequence.0);
    }

    pub(super) fn place(&mut self, place: Place) {
        self.time(place.ready_at);
        self.number(place.sequence.0);
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(super) fn metadata(&mut self, metadata: &Metadata) {
        self.number(metadata.iter().len() as u64);
        for (name, value) in metadata.iter() {
            self.text(name);
            self.text(value);
        }
    }

    pub(super) fn failure(&mut self, failure: &Failure) {
        self.text(&failure.message);
        let kind = ErrorKind::ALL.iter().position(|kind| *kind == failure.kind);
        self.byte(kind.unwrap_or_default() as u8);
        self.option(failure.code.as_deref(), Self::text);
        self.flag(failure.retryable);
        self.option(failure.details.as_deref(), Self::bytes);
        self.option(failure.stack.as_deref(), Self::text);
    }

    pub(super) fn progress(&mut self, progress: &Progress) {
        self.option(progress.percent, Self::float);
        self.option(progress.step, |w, step| w.number(step.into()));
        self.option(progress.steps, |w, steps| w.number(steps.into()));
        self.option(progress.message.as_deref(), Self::text);
        self.option(progress.details.as_deref(), Self::bytes);
        self.time(progress.updated_at);
    }

    pub(super) fn dead_reason(&mut self, reason: DeadReason) {
        self.byte(match reason {
            DeadReason::RetriesExhausted => 0,
            DeadReason::NotRetryable => 1,
            DeadReason::Poison => 2,
            DeadReason::Refused => 3,
        });
    }

    pub(super) fn cancel_reason(&mut self, reason: CancelReason) {
        self.byte(match reason {
            CancelReason::Requested => 0,
            CancelReason::Expired => 1,
            CancelReason::Worker => 2,
        });
    }
}

/// Takes values off the front of a slice.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader past the version byte.
    pub(super) fn versioned(bytes: &'a [u8]) -> Result<Self, Damaged> {
        let mut reader = Self(bytes);
        match reader.byte()? {
            super::VERSION => Ok(reader),
            _ => Err(Damaged("unknown version")),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn finish(self) -> Result<(), Damaged> {
        self.0.is_empty().then_some(()).ok_or(Damaged("trailing bytes"))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Damaged("too short"))?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        self.take(N)?.try_into().map_err(|_| Damaged("too short"))
    }

    pub(super) fn byte(&mut self) -> Result<u8, Damaged> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Damaged> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged("neither yes nor no")),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, Damaged> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged("number too long"))
    }

    pub(super) fn small(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.number()?).map_err(|_| Damaged("number too large"))
    }

    pub(super) fn signed(&mut self) -> Result<i64, Damaged> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = usize::try_from(self.number()?).map_err(|_| Damaged("too long"))?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damaged("not UTF-8"))
    }

    pub(super) fn boxed(&mut self) -> Result<Box<str>, Damaged> {
        self.text().map(Box::from)
    }

    pub(super) fn shared(&mut self) -> Result<Bytes, Damaged> {
        self.bytes().map(Bytes::copy_from_slice)
    }

    pub(super) fn id(&mut self) -> Result<[u8; 16], Damaged> {
        self.array()
    }

    pub(super) fn task_id(&mut self) -> Result<TaskId, Damaged> {
        TaskId::from_bytes(self.id()?).map_err(|_| Damaged("not an id"))
    }

    pub(super) fn worker_id(&mut self) -> Result<WorkerId, Damaged> {
        self.id().map(WorkerId::from_bytes)
    }

    pub(super) fn token(&mut self) -> Result<LeaseToken, Damaged> {
        self.id().map(LeaseToken::from_bytes)
    }

    pub(super) fn digest(&mut self) -> Result<Digest, Damaged> {
        self.id().map(Digest::from_bytes)
    }

    pub(super) fn fence(&mut self) -> Result<Fence, Damaged> {
        self.number().map(Fence::from_u64)
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Damaged> {
        self.signed().map(Timestamp::from_micros)
    }

    pub(super) fn span(&mut self) -> Result<Duration, Damaged> {
        self.number().map(Duration::from_nanos)
    }

    pub(super) fn float(&mut self) -> Result<f64, Damaged> {
        self.array().map(f64::from_le_bytes)
    }

    pub(super) fn stamp(&mut self) -> Result<Stamp, Damaged> {
        Ok(Stamp { at: self.time()?, sequence: Sequence(self.number()?) })
    }

    pub(super) fn place(&mut self) -> Result<Place, Damaged> {
        Ok(Place { ready_at: self.time()?, sequence: Sequence(self.number()?) })
    }

    pub(super) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    pub(super) fn priority(&mut self) -> Result<Priority, Damaged> {
        let number = u64::from(self.byte()?);
        Priority::from_number(number).map_err(|_| Damaged("not a priority"))
    }

    pub(super) fn metadata(&mut self) -> Result<Metadata, Damaged> {
        let entries = (0..self.number()?).map(|_| Ok((self.text()?, self.text()?)));
        let entries = entries.collect::<Result<Vec<_>, Damaged>>()?;
        Metadata::new(entries).map_err(|_| Damaged("not metadata"))
    }

    pub(super) fn failure(&mut self) -> Result<Failure, Damaged> {
        Ok(Failure {
            message: self.boxed()?,
            kind: one_of(&ErrorKind::ALL, self.byte()?)?,
            code: self.option(Self::boxed)?,
            retryable: self.flag()?,
            details: self.option(Self::shared)?,
            stack: self.option(Self::boxed)?,
        })
    }

    pub(super) fn progress(&mut self) -> Result<Progress, Damaged> {
        Ok(Progress {
            percent: self.option(Self::float)?,
            step: self.option(Self::small)?,
            steps: self.option(Self::small)?,
            message: self.option(Self::boxed)?,
            details: self.option(Self::shared)?,
            updated_at: self.time()?,
        })
    }

    pub(super) fn dead_reason(&mut self) -> Result<DeadReason, Damaged> {
        let all = [
            DeadReason::RetriesExhausted,
            DeadReason::NotRetryable,
            DeadReason::Poison,
            DeadReason::Refused,
        ];
        one_of(&all, self.byte()?)
    }

    pub(super) fn cancel_reason(&mut self) -> Result<CancelReason, Damaged> {
        let all = [CancelReason::Requested, CancelReason::Expired, CancelReason::Worker];
        one_of(&all, self.byte()?)
    }
}

/// The member with this number.
pub(super) fn one_of<T: Copy>(all: &[T], number: u8) -> Result<T, Damaged> {
    all.get(usize::from(number)).copied().ok_or(Damaged("unknown number"))
}
