//! The trace that a call belongs to, as W3C's Trace Context has it.

use axum::http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const SAMPLED: u8 = 1;
/// Vendors' words are passed on up to here.
const STATE_BYTES_MAX: usize = 512;

/// Where a call comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    flags: u8,
    pub(super) state: Option<Box<str>>,
}

impl Context {
    /// What a call says of itself; `None` if it says nothing, or nothing that can be understood.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = parents.next()?.to_str().ok()?;
        if parents.next().is_some() {
            return None;
        }
        let (trace_id, span_id, flags) = parse(parent)?;
        let state = headers.get(TRACESTATE).and_then(|state| state.to_str().ok());
        let state = state.filter(|state| state.len() <= STATE_BYTES_MAX).map(Into::into);
        Some(Self { trace_id, span_id, flags, state })
    }

    pub(super) fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

fn parse(text: &str) -> Option<([u8; 16], [u8; 8], u8)> {
    let mut parts = text.split('-');
    let [version] = digits::<1>(parts.next()?)?;
    let (trace_id, span_id) = (digits::<16>(parts.next()?)?, digits::<8>(parts.next()?)?);
    let [flags] = digits::<1>(parts.next()?)?;
    let more = parts.next().is_some();
    let known = version != 0xff && (version != 0 || !more);
    let named = trace_id != [0; 16] && span_id != [0; 8];
    (known && named).then_some((trace_id, span_id, flags))
}

/// Digits of lower case, two for each byte.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_the_standard_is_a_trace() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (trace_id, span_id, flags) = parse(good).unwrap();
        assert_eq!((trace_id[0], trace_id[15], span_id[0], flags), (0x0a, 0x9c, 0xb7, 1));
        assert!(parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
