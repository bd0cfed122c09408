//! The lanes and queues of the store, remembered as of a version.

use bytes::Bytes;
use hashbrown::HashMap;
use tasklane_core::{Lane, QueueName, QueueSettings};
use tasklane_store::codec::{self, LaneNumbers};

use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::snapshot::{Meta, Snapshot};
use crate::value;

/// Lanes and queues by their numbers, which are never given again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    lanes: Vec<(Lane, u32)>,
    lane_numbers: HashMap<Lane, u32>,
    queues: Vec<(QueueName, QueueSettings)>,
    queue_numbers: HashMap<QueueName, u32>,
    /// As in [`Meta::queues`].
    queues_version: i64,
    /// As in [`Meta::epoch`]: what was known in another is worth nothing.
    epoch: u64,
}

impl LaneNumbers for Catalog {
    fn lane(&self, number: u64) -> Option<Lane> {
        self.lanes.get(usize::try_from(number).ok()?).map(|(lane, _)| lane.clone())
    }
}

impl Catalog {
    /// Of an epoch of which nothing is known yet.
    pub(crate) fn new(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What has to be read to be up to date.
    pub(crate) fn wants(&self, meta: &Meta) -> Vec<Read> {
        let known = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        let field = |number: u32| Read::Field(Key::Lanes, number.to_string().into_bytes());
        let mut wanted: Vec<_> = (known..meta.lanes).map(field).collect();
        if meta.queues != self.queues_version {
            wanted.push(Read::plain("HGETALL", Key::Queues, []));
        }
        wanted
    }

    /// Takes over what was read because of `meta`.
    pub(crate) fn update(&mut self, snapshot: &Snapshot, meta: &Meta) -> Result<(), Fault> {
        let missing = |number: u32| Fault::Corrupt(format!("lane {number} is missing"));
        let known = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        for number in known..meta.lanes {
            let bytes = snapshot.field(&Key::Lanes, number.to_string().as_bytes());
            let bytes = bytes.and_then(Option::as_ref).ok_or_else(|| missing(number))?;
            let (queue, lane) = unpack_lane(bytes)?;
            self.add_lane(lane, queue);
        }
        let queues = Read::plain("HGETALL", Key::Queues, []);
        if let Some(answer) = snapshot.plain(&queues) {
            self.read_queues(value::pairs(answer.clone())?)?;
            self.queues_version = meta.queues;
        }
        Ok(())
    }

    fn read_queues(&mut self, pairs: Vec<(Bytes, Bytes)>) -> Result<(), Fault> {
        let mut queues = Vec::with_capacity(pairs.len());
        for (number, packed) in pairs {
            queues.push((value::number(&number)?, unpack_queue(&packed)?));
        }
        queues.sort_unstable_by_key(|(number, _)| *number);
        self.queues = queues.into_iter().map(|(_, queue)| queue).collect();
        let names = self.queues.iter().map(|(name, _)| name.clone());
        self.queue_numbers = names.zip(0..).collect();
        Ok(())
    }

    pub(crate) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn lane_number(&self, lane: &Lane) -> Option<u32> {
        self.lane_numbers.get(lane).copied()
    }

    /// A lane and the number of its queue.
    pub(crate) fn lane_and_queue(&self, number: u32) -> Result<(&Lane, u32), Fault> {
        let slot = self.lanes.get(number as usize).map(|(lane, queue)| (lane, *queue));
        slot.ok_or_else(|| Fault::Corrupt(format!("there is no lane {number}")))
    }

    pub(crate) fn add_lane(&mut self, lane: Lane, queue: u32) -> u32 {
        let number = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        self.lane_numbers.insert(lane.clone(), number);
        self.lanes.push((lane, queue));
        number
    }

    pub(crate) fn queue_number(&self, queue: &QueueName) -> Option<u32> {
        self.queue_numbers.get(queue).copied()
    }

    pub(crate) fn queue(&self, number: u32) -> Option<&(QueueName, QueueSettings)> {
        self.queues.get(number as usize)
    }

    /// Queues with their numbers, in the order in which they came.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (u32, &QueueName, &QueueSettings)> {
        (0..).zip(&self.queues).map(|(number, (name, settings))| (number, name, settings))
    }

    pub(crate) fn set_queue(&mut self, queue: QueueName, settings: QueueSettings) -> u32 {
        self.queues_version += 1;
        if let Some(number) = self.queue_number(&queue) {
            if let Some((_, known)) = self.queues.get_mut(number as usize) {
                *known = settings;
            }
            return number;
        }
        let number = u32::try_from(self.queues.len()).unwrap_or(u32::MAX);
        self.queue_numbers.insert(queue.clone(), number);
        self.queues.push((queue, settings));
        number
    }

    pub(crate) fn queues_version(&self) -> i64 {
        self.queues_version
    }
}

pub(crate) fn pack_lane(queue: u32, lane: &Lane) -> Vec<u8> {
    let mut packed = queue.to_be_bytes().to_vec();
    packed.extend(codec::encode_lane(lane));
    packed
}

fn unpack_lane(packed: &[u8]) -> Result<(u32, Lane), Fault> {
    let Some((queue, lane)) = packed.split_first_chunk() else {
        return Err(Fault::Corrupt("a lane is cut short".into()));
    };
    Ok((u32::from_be_bytes(*queue), codec::decode_lane(lane)?))
}

/// The length of the name, the name, the settings.
pub(crate) fn pack_queue(queue: &QueueName, settings: &QueueSettings) -> Vec<u8> {
    let name = queue.as_str().as_bytes();
    let mut packed = vec![u8::try_from(name.len()).unwrap_or(u8::MAX)];
    packed.extend_from_slice(name);
    packed.extend(codec::encode_queue(settings));
    packed
}

fn unpack_queue(packed: &[u8]) -> Result<(QueueName, QueueSettings), Fault> {
    let bad = || Fault::Corrupt("a queue is not one".into());
    let (length, rest) = packed.split_first().ok_or_else(bad)?;
    let (name, settings) = rest.split_at_checked(usize::from(*length)).ok_or_else(bad)?;
    let name = std::str::from_utf8(name).map_err(|_| bad())?;
    Ok((QueueName::new(name).map_err(|_| bad())?, codec::decode_queue(settings)?))
}
