//! The trail of a task as one field: its entries, each behind its length. A key of its own for each
//! task would cost Redis a command for every task that ends, and another when it is removed.

use bytes::{Buf, BufMut, Bytes};
use tasklane_core::Entry;
use tasklane_store::codec;

use crate::fault::Fault;

/// Adds an entry.
pub(crate) fn push(packed: &mut Vec<u8>, entry: &Entry) {
    let entry = codec::encode_entry(entry);
    packed.put_u32(u32::try_from(entry.len()).unwrap_or(u32::MAX));
    packed.put_slice(&entry);
}

/// The entries.
pub(crate) fn unpack(packed: Option<Bytes>) -> Result<Vec<Entry>, Fault> {
    let parts = parts(packed.unwrap_or_default())?;
    parts.iter().map(|entry| Ok(codec::decode_entry(entry)?)).collect()
}

/// Only the last so many entries.
pub(crate) fn last(packed: Vec<u8>, count: usize) -> Result<Vec<u8>, Fault> {
    let parts = parts(packed.into())?;
    let mut kept = Vec::new();
    for entry in parts.iter().skip(parts.len().saturating_sub(count)) {
        kept.put_u32(u32::try_from(entry.len()).unwrap_or(u32::MAX));
        kept.put_slice(entry);
    }
    Ok(kept)
}

fn parts(mut packed: Bytes) -> Result<Vec<Bytes>, Fault> {
    let mut parts = Vec::new();
    while !packed.is_empty() {
        let short = || Fault::Corrupt("a trail is cut short".into());
        let length = packed.try_get_u32().map_err(|_| short())? as usize;
        if packed.len() < length {
            return Err(short());
        }
        parts.push(packed.split_to(length));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_that_is_cut_short_is_noticed() {
        let mut packed = vec![0, 0, 0, 2, 7, 8, 0, 0, 0, 1, 9];
        let ends: Vec<_> = parts(packed.clone().into()).unwrap();
        assert_eq!(ends, [&[7, 8][..], &[9]]);
        assert_eq!(last(packed.clone(), 1).unwrap(), [0, 0, 0, 1, 9]);
        packed.pop();
        assert!(parts(packed.clone().into()).is_err());
        packed.truncate(8);
        assert!(parts(packed.into()).is_err());
    }
}
