//! Values that have a form of their own in JSON.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use serde::de::{Error, Unexpected, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tasklane_core::{ErrorKind, LeaseToken, Priority, StateName, TaskId, Timestamp, WorkerId};

use super::digits;

/// The word that begins the message of an error about a number outside its range.
pub const OUT_OF_RANGE: &str = "out of range";

/// What a member is that is absent and means yes.
pub(super) const fn yes() -> bool {
    true
}

/// Reads a text without keeping it.
struct Parsed<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parsed<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $format:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Parsed(PhantomData)).map(Self)
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                schema::text($format)
            }
        }
        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
    };
}

text!(
    /// A task's id.
    TaskIdText, TaskId, Some("uuid")
);
text!(
    /// A worker's id.
    WorkerIdText, WorkerId, Some("uuid")
);
text!(
    /// A lease token.
    TokenText, LeaseToken, None
);
text!(
    /// A number that may be too large for a JSON number.
    NumberText, u64, None
);

impl Serialize for TaskIdText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        digits::serialize(&digits::uuid(self.0.as_bytes()), serializer)
    }
}

impl Serialize for WorkerIdText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        digits::serialize(&digits::uuid(self.0.as_bytes()), serializer)
    }
}

impl Serialize for TokenText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        digits::serialize(&digits::hex(self.0.as_bytes()), serializer)
    }
}

impl Serialize for NumberText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An instant, as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match jiff::Timestamp::from_microsecond(micros) {
            Ok(time) => write!(f, "{time:.6}"),
            // Beyond the year 9999, which no call can set: the last instant that has a form.
            Err(_) => write!(f, "{:.6}", jiff::Timestamp::MAX),
        }
    }
}

impl FromStr for Time {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time: jiff::Timestamp =
            text.parse().map_err(|_| "a time as RFC 3339, for example 2026-11-15T12:00:00Z")?;
        Ok(Self(Timestamp::from_micros(time.as_microsecond())))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match digits::time(self.0.as_micros()) {
            Some(digits) => digits::serialize(&digits, serializer),
            None => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse()
            .map_err(|expected| D::Error::invalid_value(Unexpected::Other("text"), &expected))
    }
}

/// A length of time in seconds; whole numbers are shown without a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Seconds(pub Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.subsec_nanos() == 0 {
            serializer.serialize_u64(self.0.as_secs())
        } else {
            serializer.serialize_f64((self.0.as_secs_f64() * 1e6).round() / 1e6)
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds)
            .map(Self)
            .map_err(|_| D::Error::custom(format_args!("{OUT_OF_RANGE}: seconds from 0 up")))
    }
}

/// A priority: its word, or on input also `medium` or a number from 0 to 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PriorityWord(pub Priority);

impl Serialize for PriorityWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for PriorityWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Priority;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("critical, high, normal, low, or a number from 0 to 3")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Priority, E> {
                word.parse().map_err(|_| E::invalid_value(Unexpected::Other("text"), &self))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Priority, E> {
                Priority::from_number(number)
                    .map_err(|_| E::custom(format_args!("{OUT_OF_RANGE}: priorities are 0 to 3")))
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Priority, E> {
                Err(E::custom(format_args!("{OUT_OF_RANGE}: priorities are 0 to 3")))
            }
        }
        deserializer.deserialize_any(Either).map(Self)
    }
}

/// A state by its word; on input the usual other words too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateWord(pub StateName);

impl Serialize for StateWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for StateWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        let expected = &"the name of a state";
        StateName::from_word(&word)
            .map(Self)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Other("text"), expected))
    }
}

/// A kind of failure by its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KindWord(pub ErrorKind);

impl Serialize for KindWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for KindWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        let expected = &"transient, rate_limited, timeout, resource, unknown, permanent or bug";
        ErrorKind::from_word(&word)
            .map(Self)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Other("text"), expected))
    }
}

/// JSON text that passes through as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(pub Bytes);

/// The name by which serde_json knows text that is JSON already. A test sees that it still does.
const RAW: &str = "$serde_json::private::RawValue";

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(&self.0).map_err(serde::ser::Error::custom)?;
        // As `RawValue` does it, which cannot be made from borrowed text without reading it again.
        let mut raw = serializer.serialize_struct(RAW, 1)?;
        raw.serialize_field(RAW, text)?;
        raw.end()
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        Ok(Self(Bytes::from(Box::<str>::from(raw).into_string())))
    }
}

#[cfg(feature = "schema")]
mod schema {
    use super::{Json, KindWord, PriorityWord, Seconds, StateWord, Time};

    use tasklane_core::{ErrorKind, StateName};
    use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, SchemaType, Type};
    use utoipa::openapi::{RefOr, Schema, SchemaFormat};
    use utoipa::{PartialSchema, ToSchema};

    pub(super) fn text(format: Option<&str>) -> RefOr<Schema> {
        let format = format.map(|format| SchemaFormat::Custom(format.to_owned()));
        ObjectBuilder::new().schema_type(Type::String).format(format).build().into()
    }

    impl PartialSchema for Time {
        fn schema() -> RefOr<Schema> {
            text(Some("date-time"))
        }
    }
    impl ToSchema for Time {}
    impl PartialSchema for Seconds {
        fn schema() -> RefOr<Schema> {
            ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).build().into()
        }
    }
    impl ToSchema for Seconds {}
    impl PartialSchema for PriorityWord {
        fn schema() -> RefOr<Schema> {
            let words = ["critical", "high", "normal", "medium", "low"];
            let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words));
            let number =
                ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(3));
            Schema::AnyOf(AnyOfBuilder::new().item(word).item(number).build()).into()
        }
    }
    impl ToSchema for PriorityWord {}
    fn one_of(words: impl Iterator<Item = &'static str>) -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build().into()
    }
    impl PartialSchema for StateWord {
        fn schema() -> RefOr<Schema> {
            one_of(StateName::ALL.into_iter().map(StateName::as_str))
        }
    }
    impl ToSchema for StateWord {}
    impl PartialSchema for KindWord {
        fn schema() -> RefOr<Schema> {
            one_of(ErrorKind::ALL.into_iter().map(ErrorKind::as_str))
        }
    }
    impl ToSchema for KindWord {}
    impl PartialSchema for Json {
        fn schema() -> RefOr<Schema> {
            ObjectBuilder::new()
                .schema_type(SchemaType::AnyValue)
                .description(Some("Any JSON"))
                .build()
                .into()
        }
    }
    impl ToSchema for Json {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_passes_through_byte_for_byte() {
        let text = r#"{"a":  1.50, "b": "\u00e9"}"#;
        let shown = serde_json::to_string(&[Json(Bytes::from_static(text.as_bytes()))]).unwrap();
        assert_eq!(shown, format!("[{text}]"));
        let read: Vec<Json> = serde_json::from_str(&shown).unwrap();
        assert_eq!(&read[0].0[..], text.as_bytes());
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        let time: Time = serde_json::from_str(r#""2026-11-15T13:00:00.25+01:00""#).unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), r#""2026-11-15T12:00:00.250000Z""#);
        for bad in [r#""tomorrow""#, r#""2026-11-15""#, "5", r#""2026-13-01T00:00:00Z""#] {
            assert!(serde_json::from_str::<Time>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_are_whole_where_they_can_be() {
        let shown =
            |millis| serde_json::to_string(&Seconds(Duration::from_millis(millis))).unwrap();
        assert_eq!((shown(300_000), shown(1_500)), ("300".into(), "1.5".into()));
        for bad in ["-1", "1e300", "\"5\""] {
            assert!(serde_json::from_str::<Seconds>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn priorities_are_words_or_numbers() {
        let read = |text: &str| serde_json::from_str::<PriorityWord>(text).map(|p| p.0).ok();
        assert_eq!(read("\"medium\""), Some(Priority::Normal));
        assert_eq!(read("3"), Some(Priority::Critical));
        assert_eq!((read("7"), read("-1"), read("\"urgent\"")), (None, None, None));
    }
}
