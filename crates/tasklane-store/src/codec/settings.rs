//! Workers, queue settings and counters.

use tasklane_core::{
    Aging, Capability, CapabilitySet, DepthLimits, Names, Order, Pattern, Pinned, Priority,
    QueueSettings, Retention, Selection, StateName, Weight, Weights, WorkerSpec, WorkerState,
};

use super::primitive::{Damaged, Reader, Writer, one_of};

/// Packs what a worker said of itself and whether it gets tasks.
pub fn encode_worker(spec: &WorkerSpec, state: WorkerState) -> Vec<u8> {
    let mut w = Writer::versioned(Vec::new());
    let number = WorkerState::ALL.iter().position(|known| *known == state);
    w.byte(number.unwrap_or_default() as u8);
    w.number(spec.capacity.into());
    for text in [&spec.name, &spec.version, &spec.host, &spec.owner] {
        w.option(text.as_deref(), Writer::text);
    }
    write_names(&mut w, &spec.selection.queues);
    write_names(&mut w, &spec.selection.types);
    w.number(spec.selection.capabilities.iter().len() as u64);
    for capability in spec.selection.capabilities.iter() {
        w.text(capability.as_str());
    }
    w.0
}

/// Unpacks a worker.
pub fn decode_worker(bytes: &[u8]) -> Result<(WorkerSpec, WorkerState), Damaged> {
    let bad = |_| Damaged("not a worker");
    let mut r = Reader::versioned(bytes)?;
    let state = one_of(&WorkerState::ALL, r.byte()?)?;
    let capacity = r.small()?;
    let (name, version) = (r.option(Reader::boxed)?, r.option(Reader::boxed)?);
    let (host, owner) = (r.option(Reader::boxed)?, r.option(Reader::boxed)?);
    let (queues, types) = (read_names(&mut r)?, read_names(&mut r)?);
    let capabilities = (0..r.number()?).map(|_| Capability::new(r.text()?).map_err(bad));
    let capabilities = capabilities.collect::<Result<Vec<_>, _>>()?;
    let capabilities = CapabilitySet::new(capabilities).map_err(bad)?;
    r.finish()?;
    let selection = Selection { queues, types, capabilities };
    Ok((WorkerSpec { name, selection, capacity, version, host, owner }, state))
}

pub(super) fn write_names(w: &mut Writer, names: &Names) {
    let patterns = match names {
        Names::All => None,
        Names::Matching(patterns) => Some(patterns),
    };
    w.option(patterns, |w, patterns| {
        w.number(patterns.len() as u64);
        for pattern in patterns.iter() {
            let (prefix, text) = match pattern {
                Pattern::Exact(text) => (false, text),
                Pattern::Prefix(text) => (true, text),
            };
            w.flag(prefix);
            w.text(text);
        }
    });
}

pub(super) fn read_names(r: &mut Reader<'_>) -> Result<Names, Damaged> {
    let patterns = r.option(|r| {
        let pattern = |r: &mut Reader<'_>| {
            let prefix = r.flag()?;
            let text = r.text()?.into();
            Ok(if prefix { Pattern::Prefix(text) } else { Pattern::Exact(text) })
        };
        (0..r.number()?).map(|_| pattern(r)).collect::<Result<Vec<_>, Damaged>>()
    })?;
    match patterns {
        None => Ok(Names::All),
        Some(patterns) => Names::matching(patterns).map_err(|_| Damaged("too many patterns")),
    }
}

/// Packs a queue's settings.
pub fn encode_queue(settings: &QueueSettings) -> Vec<u8> {
    let mut w = Writer::versioned(Vec::new());
    w.flag(settings.paused);
    w.number(settings.weight.get().into());
    match &settings.order {
        Order::Aging(aging) => {
            w.byte(0);
            for level in [Priority::Normal, Priority::High, Priority::Critical] {
                w.option(aging.threshold(level), Writer::span);
            }
        }
        Order::Weighted(weights) => {
            w.byte(1);
            for priority in Priority::DESCENDING {
                w.number(weights.of(priority).into());
            }
        }
    }
    for depth in [settings.depth.normal, settings.depth.high, settings.depth.all] {
        w.number(depth);
    }
    w.option(settings.retention, |w, kept| {
        for span in [kept.completed, kept.cancelled, kept.failed, kept.dead_letter] {
            w.option(span, Writer::span);
        }
    });
    let Pinned { order, weight, depth, retention } = settings.pinned;
    [order, weight, depth, retention].into_iter().for_each(|pinned| w.flag(pinned));
    w.0
}

/// Unpacks a queue's settings.
pub fn decode_queue(bytes: &[u8]) -> Result<QueueSettings, Damaged> {
    let bad = |_| Damaged("not queue settings");
    let mut r = Reader::versioned(bytes)?;
    let paused = r.flag()?;
    let weight = Weight::new(r.small()?).map_err(bad)?;
    let order = match r.byte()? {
        0 => {
            let mut level = || r.option(Reader::span);
            Order::Aging(Aging::new(level()?, level()?, level()?).map_err(bad)?)
        }
        1 => {
            let mut share = || r.small();
            let weights = Weights::new(share()?, share()?, share()?, share()?);
            Order::Weighted(weights.map_err(bad)?)
        }
        _ => return Err(Damaged("unknown order")),
    };
    let depth = DepthLimits::new(r.number()?, r.number()?, r.number()?).map_err(bad)?;
    let retention = r.option(|r| {
        let mut kept = || r.option(Reader::span);
        Ok(Retention {
            completed: kept()?,
            cancelled: kept()?,
            failed: kept()?,
            dead_letter: kept()?,
        })
    })?;
    let mut settings =
        QueueSettings { paused, order, weight, depth, retention, pinned: Pinned::default() };
    settings.pinned = match r.is_empty() {
        true => pinned_before(&settings),
        false => {
            Pinned { order: r.flag()?, weight: r.flag()?, depth: r.flag()?, retention: r.flag()? }
        }
    };
    r.finish()?;
    Ok(settings)
}

/// Records from before there were configurations do not say what an operator had set: whatever is
/// not as it comes.
fn pinned_before(settings: &QueueSettings) -> Pinned {
    let plain = QueueSettings::default();
    Pinned {
        order: settings.order != plain.order,
        weight: settings.weight != plain.weight,
        depth: settings.depth != plain.depth,
        retention: settings.retention != plain.retention,
    }
}

/// Tasks of one lane by priority and state.
pub type Counts = [[u64; StateName::COUNT]; Priority::COUNT];

/// Packs the counters of a lane.
pub fn encode_counts(counts: &Counts) -> Vec<u8> {
    let mut w = Writer::versioned(Vec::with_capacity(64));
    counts.iter().flatten().for_each(|count| w.number(*count));
    w.0
}

/// Unpacks the counters of a lane.
pub fn decode_counts(bytes: &[u8]) -> Result<Counts, Damaged> {
    let mut r = Reader::versioned(bytes)?;
    let mut counts = Counts::default();
    for count in counts.iter_mut().flatten() {
        *count = r.number()?;
    }
    r.finish()?;
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_from_before_configurations_are_an_operators_where_they_are_not_plain() {
        let settings = QueueSettings { weight: Weight::new(7).unwrap(), ..Default::default() };
        let bytes = encode_queue(&settings);
        assert_eq!(decode_queue(&bytes), Ok(settings));
        let before = decode_queue(&bytes[..bytes.len() - 4]).unwrap();
        assert_eq!(before.pinned, Pinned { weight: true, ..Pinned::default() });
        assert!(decode_queue(&bytes[..bytes.len() - 1]).is_err());
    }
}
