//! Small labels on a task, and the trace it belongs to.

use std::sync::Arc;

use crate::error::{Invalid, Problem};
use crate::limits;
use crate::name::{check_characters, check_length};

/// Names and values that a producer attaches and lists can filter by. Sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata(Arc<[(Box<str>, Box<str>)]>);

impl Metadata {
    /// Checks and sorts; of two entries with one name the later wins.
    pub fn new<N, V>(entries: impl IntoIterator<Item = (N, V)>) -> Result<Self, Invalid>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut sorted = std::collections::BTreeMap::new();
        let mut bytes = 0;
        for (name, value) in entries {
            let (name, value) = (name.as_ref(), value.as_ref());
            check_length("metadata", name, limits::NAME_BYTES_MAX)?;
            check_characters("metadata", name, |c| c == '\0')?;
            check_characters("metadata", value, |c| c == '\0')?;
            bytes += name.len() + value.len();
            sorted.insert(Box::from(name), Box::from(value));
        }
        if sorted.len() > limits::METADATA_ENTRIES_MAX {
            let max = limits::METADATA_ENTRIES_MAX;
            return Err(Invalid::new("metadata", Problem::TooMany { max }));
        }
        if bytes > limits::METADATA_BYTES_MAX {
            let max = limits::METADATA_BYTES_MAX;
            return Err(Invalid::new("metadata", Problem::TooLong { max }));
        }
        Ok(Self(sorted.into_iter().collect()))
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(entry, value)| (entry == name).then_some(value))
    }

    /// Names and values in order of names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// W3C trace context, carried from the producer to the worker and never interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The `traceparent` header.
    pub traceparent: Arc<str>,
    /// The `tracestate` header, where there was one.
    pub tracestate: Option<Arc<str>>,
}

impl TraceContext {
    /// Checks lengths and characters; the content is the tracing system's business.
    pub fn new(traceparent: &str, tracestate: Option<&str>) -> Result<Self, Invalid> {
        for (field, text) in [("traceparent", Some(traceparent)), ("tracestate", tracestate)] {
            if let Some(text) = text {
                check_length(field, text, limits::TRACE_BYTES_MAX)?;
                check_characters(field, text, |c| !(' '..='~').contains(&c))?;
            }
        }
        Ok(Self { traceparent: Arc::from(traceparent), tracestate: tracestate.map(Arc::from) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_sorted_and_found_by_name() {
        let metadata = Metadata::new([("b", "2"), ("a", "1"), ("b", "3")]).unwrap();
        assert_eq!(metadata.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
        assert_eq!((metadata.get("b"), metadata.get("c")), (Some("3"), None));
    }

    #[test]
    fn metadata_beyond_its_bounds_is_refused() {
        assert!(Metadata::new([("", "x")]).is_err());
        assert!(Metadata::new([("a\0", "x")]).is_err());
        assert!(Metadata::new([("a", "\0")]).is_err());
        assert!(Metadata::new([("a", "x".repeat(16 * 1024))]).is_err());
        assert!(Metadata::new((0..65).map(|n| (n.to_string(), ""))).is_err());
    }

    #[test]
    fn trace_context_is_printable_ascii() {
        assert!(TraceContext::new("00-abc-def-01", Some("k=v")).is_ok());
        assert!(TraceContext::new("", None).is_err());
        assert!(TraceContext::new("00\r\nX: y", None).is_err());
    }
}
