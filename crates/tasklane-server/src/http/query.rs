//! Query strings: read strictly, by the same tables that document them.

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tasklane_client::wire::Time;
use tasklane_core::{Priority, StateName, Timestamp};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Required, SchemaFormat};

use super::problem::{self, Refused};

/// What the value of a parameter looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Any text.
    Text,
    /// A whole number.
    Number,
    /// Whole or broken seconds.
    Seconds,
    /// `true` or `false`.
    Flag,
    /// An instant.
    Time,
    /// A UUID.
    Id,
}

/// A parameter that a route takes. A name that ends in `.` takes any name behind it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) description: &'static str,
}

/// The parameters of a route.
pub(crate) trait KnownParameters {
    /// Tables of them.
    const TABLES: &'static [&'static [Known]];
}

/// Gives a route its parameters, for its reader and for its documentation.
macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident = [$($table:expr),* $(,)?]) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;

        impl $crate::http::query::KnownParameters for $name {
            const TABLES: &'static [&'static [$crate::http::query::Known]] = &[$($table),*];
        }

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                $crate::http::query::documented::<Self>()
            }
        }
    };
}
pub(crate) use parameters;

parameters!(
    /// None at all.
    Nothing = []
);

/// A table's rows as short as they can be.
pub(crate) const fn known(name: &'static str, form: Form, description: &'static str) -> Known {
    Known { name, form, description }
}

/// The parameters as OpenAPI has them.
pub(crate) fn documented<K: KnownParameters>() -> Vec<Parameter> {
    let parameter = |known: &Known| {
        let (kind, format) = match known.form {
            Form::Text => (Type::String, None),
            Form::Number => (Type::Integer, None),
            Form::Seconds => (Type::Number, None),
            Form::Flag => (Type::Boolean, None),
            Form::Time => (Type::String, Some("date-time")),
            Form::Id => (Type::String, Some("uuid")),
        };
        let format = format.map(|format| SchemaFormat::Custom(format.to_owned()));
        let name = if known.name.ends_with('.') {
            format!("{}KEY", known.name)
        } else {
            known.name.to_owned()
        };
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(known.description))
            .schema(Some(ObjectBuilder::new().schema_type(kind).format(format)))
            .build()
    };
    K::TABLES.iter().copied().flatten().map(parameter).collect()
}

/// The parameters of a request: each known, none twice.
#[derive(Debug)]
pub(crate) struct Parameters<K> {
    pairs: Vec<(String, String)>,
    known: PhantomData<K>,
}

impl<K: KnownParameters, S: Sync> FromRequestParts<S> for Parameters<K> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        Self::read(parts.uri.query().unwrap_or_default())
    }
}

impl<K: KnownParameters> Parameters<K> {
    /// Reads a query string.
    pub(crate) fn read(query: &str) -> Result<Self, Refused> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = decode(name).ok_or_else(|| malformed("", "is not text in UTF-8"))?;
            if !K::TABLES.iter().copied().flatten().any(|known| known.takes(&name)) {
                let detail = "is not a parameter of this route";
                return Err(refused(problem::VALIDATION_FAILED, &name, "unknown-field", detail));
            }
            let value = decode(value).ok_or_else(|| malformed(&name, "is not text in UTF-8"))?;
            if value.contains('\0') {
                let kind = problem::INVALID_CHARACTERS;
                return Err(refused(kind, &name, "invalid-characters", "contains a NUL"));
            }
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(malformed(&name, "is given twice"));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs, known: PhantomData })
    }

    /// The text of a parameter; an empty one is a mistake.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refused> {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        match found.map(|(_, value)| value.as_str()) {
            Some("") => {
                Err(refused(problem::VALIDATION_FAILED, name, "empty", "must not be empty"))
            }
            value => Ok(value),
        }
    }

    /// Parameters whose names begin with `prefix`, without it.
    pub(crate) fn beginning_with<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let stripped = move |(name, value): &'a (String, String)| {
            Some((name.strip_prefix(prefix)?, value.as_str()))
        };
        self.pairs.iter().filter_map(stripped)
    }

    /// A whole number in a range.
    pub(crate) fn number(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let kind = problem::VALIDATION_FAILED;
            return Err(refused(kind, name, "wrong-type", "must be a whole number"));
        }
        match text.parse::<u64>().ok().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let detail = format!("must be {} to {}", range.start(), range.end());
                Err(refused(problem::OUT_OF_RANGE, name, "out-of-range", &detail))
            }
        }
    }

    /// Whole or broken seconds, up to `max`.
    pub(crate) fn seconds(&self, name: &str, max: Duration) -> Result<Option<Duration>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let seconds: f64 = text.parse().map_err(|_| {
            refused(problem::VALIDATION_FAILED, name, "wrong-type", "must be a number of seconds")
        })?;
        let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= max);
        span.map(Some).ok_or_else(|| {
            let detail = format!("must be 0 to {} seconds", max.as_secs());
            refused(problem::OUT_OF_RANGE, name, "out-of-range", &detail)
        })
    }

    /// `true` or `false`; absent is `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refused> {
        match self.text(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => {
                let kind = problem::VALIDATION_FAILED;
                Err(refused(kind, name, "wrong-type", "must be true or false"))
            }
        }
    }

    /// An instant.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        // An unescaped plus sign of an offset arrives as a space.
        let time: Result<Time, _> = text.replace(' ', "+").parse();
        time.map(|time| Some(time.0))
            .map_err(|expected| malformed(name, &format!("must be {expected}")))
    }

    /// Something that is read from text.
    pub(crate) fn parsed<T: std::str::FromStr>(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| malformed(name, &format!("must be {expected}")))
    }

    /// States, separated by commas.
    pub(crate) fn states(&self, name: &str) -> Result<Vec<StateName>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(Vec::new()) };
        let expected = "must be names of states, separated by commas";
        let state = |word: &str| StateName::from_word(word.trim());
        let states: Option<Vec<_>> = text.split(',').map(state).collect();
        states.ok_or_else(|| malformed(name, expected))
    }

    /// A priority, as a word or a number.
    pub(crate) fn priority(&self, name: &str) -> Result<Option<Priority>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        priority(text, &format!("?{name}")).map(Some)
    }
}

/// A priority as a word or a number, in a query or a path.
pub(crate) fn priority(text: &str, pointer: &str) -> Result<Priority, Refused> {
    let expected = "must be critical, high, normal, low, or a number from 0 to 3";
    if let Ok(priority) = text.parse() {
        return Ok(priority);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refused::field(problem::VALIDATION_FAILED, pointer, "malformed", expected));
    }
    let number = text.parse().ok().and_then(|number| Priority::from_number(number).ok());
    number.ok_or_else(|| Refused::field(problem::OUT_OF_RANGE, pointer, "out-of-range", expected))
}

impl Known {
    fn takes(&self, name: &str) -> bool {
        match self.name.ends_with('.') {
            true => name.strip_prefix(self.name).is_some_and(|key| !key.is_empty()),
            false => self.name == name,
        }
    }
}

fn refused(kind: problem::Kind, name: &str, code: &'static str, detail: &str) -> Refused {
    // A name of the client's own making may be long; its beginning is enough to find it by.
    let name = name.split_at(name.floor_char_boundary(64)).0;
    Refused::field(kind, format!("?{name}"), code, detail)
}

fn malformed(name: &str, detail: &str) -> Refused {
    refused(problem::VALIDATION_FAILED, name, "malformed", detail)
}

/// Percent-decoding; `None` for escapes that are none and for bytes that are no text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Known] = &[
        known("state", Form::Text, "states"),
        known("limit", Form::Number, "a number"),
        known("counts", Form::Flag, "a flag"),
        known("after", Form::Time, "a time"),
        known("metadata.", Form::Text, "labels"),
    ];
    parameters!(Sample = [TABLE]);

    fn read(query: &str) -> Parameters<Sample> {
        Parameters::read(query).unwrap()
    }

    /// Status and pointer of a refusal.
    fn refusal<T: std::fmt::Debug>(outcome: Result<T, Refused>) -> (&'static str, String) {
        let refused = outcome.unwrap_err();
        let word = refused.kind().word;
        let shown = refused.render("", "");
        (word, shown.errors.first().map(|error| error.pointer.to_string()).unwrap_or_default())
    }

    #[test]
    fn what_is_escaped_is_read_as_it_was_meant() {
        let parameters = read("state=a%2Cb+c&metadata.user%20id=%C3%A9%26&&");
        assert_eq!(parameters.text("state").unwrap(), Some("a,b c"));
        let labels: Vec<_> = parameters.beginning_with("metadata.").collect();
        assert_eq!(labels, [("user id", "é&")]);
    }

    #[test]
    fn unknown_repeated_and_broken_parameters_are_refused() {
        let read = |query| refusal(Parameters::<Sample>::read(query));
        let failed = "validation-failed";
        assert_eq!(read("stat=x"), (failed, "?stat".into()));
        assert_eq!(read("metadata.=x"), (failed, "?metadata.".into()));
        assert_eq!(read("limit=1&limit=2"), (failed, "?limit".into()));
        for broken in ["state=%", "state=%4", "state=%zz", "state=%ff", "state=%+1"] {
            assert_eq!(read(broken), (failed, "?state".into()), "{broken}");
        }
        assert_eq!(read("state=a%00b"), ("invalid-characters", "?state".into()));
        assert!(refusal(Parameters::<Nothing>::read("x")).1 == "?x");
    }

    #[test]
    fn numbers_have_a_type_and_a_range() {
        let number = |query: &str| read(query).number("limit", 1..=1_000);
        assert_eq!(number("limit=1000").unwrap(), Some(1_000));
        assert_eq!(number("").unwrap(), None);
        for outside in ["0", "1001", "-1", "99999999999999999999999"] {
            let refused = refusal(number(&format!("limit={outside}")));
            assert_eq!(refused, ("out-of-range", "?limit".into()), "{outside}");
        }
        for other in ["ten", "1.5", "", "+1", "1e3", "-"] {
            let refused = refusal(number(&format!("limit={}", other.replace('+', "%2B"))));
            assert_eq!(refused, ("validation-failed", "?limit".into()), "{other}");
        }
    }

    #[test]
    fn flags_times_and_states_are_words_of_their_own() {
        assert!(read("counts=true").flag("counts").unwrap());
        assert!(!read("counts=false").flag("counts").unwrap());
        assert_eq!(refusal(read("counts=1").flag("counts")).0, "validation-failed");
        let time = read("after=2026-11-15T12:00:00Z").time("after").unwrap();
        assert_eq!(read("after=2026-11-15T13:00:00+01:00").time("after").unwrap(), time);
        assert_eq!(refusal(read("after=yesterday").time("after")).1, "?after");
        let states = read("state=queued,running").states("state").unwrap();
        assert_eq!(states, [StateName::Pending, StateName::Running]);
        assert_eq!(refusal(read("state=queued,").states("state")).1, "?state");
        assert_eq!(refusal(read("state=7").priority("state")).0, "out-of-range");
        assert_eq!(read("state=medium").priority("state").unwrap(), Some(Priority::Normal));
    }
}
