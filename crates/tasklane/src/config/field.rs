//! Where the value of a setting lives: a place that can be read and written.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kind::Value;

/// A place for a value. What is written has been read by the setting's kind, so it fits.
pub(crate) trait Field {
    /// What is there; `None` if nothing was set.
    fn read(&self) -> Option<Value>;
    /// Sets it; a value of another sort changes nothing.
    fn write(&mut self, value: Value);
}

/// How long at most; or not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Limit {
    #[default]
    Endless,
    Span(Duration),
}

impl Limit {
    pub(crate) fn span(self) -> Option<Duration> {
        match self {
            Self::Endless => None,
            Self::Span(span) => Some(span),
        }
    }
}

impl From<Option<Duration>> for Limit {
    fn from(span: Option<Duration>) -> Self {
        span.map_or(Self::Endless, Self::Span)
    }
}

impl Field for Limit {
    fn read(&self) -> Option<Value> {
        Some(self.span().map_or(Value::Endless, Value::Span))
    }

    fn write(&mut self, value: Value) {
        match value {
            Value::Span(span) => *self = Self::Span(span),
            Value::Endless => *self = Self::Endless,
            _ => {}
        }
    }
}

impl<T: Field + Default> Field for Option<T> {
    fn read(&self) -> Option<Value> {
        self.as_ref().and_then(Field::read)
    }

    fn write(&mut self, value: Value) {
        self.get_or_insert_default().write(value);
    }
}

macro_rules! fields {
    ($($type:ty: $value:ident, $place:ident => $read:expr, $sort:pat => $write:expr;)*) => {$(
        impl Field for $type {
            fn read(&self) -> Option<Value> {
                let $place = self;
                Some($read)
            }

            fn write(&mut self, $value: Value) {
                if let $sort = $value {
                    *self = $write;
                }
            }
        }
    )*};
}

fields! {
    String: value, place => Value::Text(place.clone()), Value::Text(text) => text;
    Vec<Box<str>>: value, place => Value::Texts(place.iter().map(|text| (**text).to_owned()).collect()),
        Value::Texts(texts) => texts.into_iter().map(Into::into).collect();
    bool: value, place => Value::Flag(*place), Value::Flag(flag) => flag;
    Duration: value, place => Value::Span(*place), Value::Span(span) => span;
    [u32; 4]: value, place => Value::Shares(*place), Value::Shares(shares) => shares;
    u64: value, place => Value::Whole(*place), Value::Whole(number) => number;
    u32: value, place => Value::Whole((*place).into()),
        Value::Whole(number) => u32::try_from(number).unwrap_or(u32::MAX);
    usize: value, place => Value::Whole(*place as u64),
        Value::Whole(number) => usize::try_from(number).unwrap_or(usize::MAX);
    f64: value, place => Value::Decimal(*place), Value::Decimal(number) => number;
    // By way of its text, so that 0.1 stays 0.1.
    f32: value, place => Value::Decimal(place.to_string().parse().unwrap_or(f64::from(*place))),
        Value::Decimal(number) => number as f32;
}

/// The values of a named section, made if it is new.
pub(crate) fn named<'a, T: Default>(map: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    map.entry(name.to_owned()).or_default()
}
