//! Objects are read from objects alone, and words from texts: serde by itself would also take a list
//! for the members of an object in their order, and an object for a word.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads what is there, which counts also if it is null.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads an object.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// Reads an object, or nothing.
pub(super) fn optional_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let read = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(read.map(|Object(value)| value))
}

/// Reads a list of objects.
pub(super) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let read = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|Object(value)| value).collect())
}

/// Reads a list of objects, or nothing.
pub(super) fn optional_objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let read = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(read.map(|list| list.into_iter().map(|Object(value)| value).collect()))
}

/// Reads a word.
pub(super) fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Word::deserialize(deserializer).map(|Word(value)| value)
}

/// Reads a word, or nothing.
pub(super) fn optional_word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let read = Option::<Word<T>>::deserialize(deserializer)?;
    Ok(read.map(|Word(value)| value))
}

/// Reads a list of words.
pub(super) fn words<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let read = Vec::<Word<T>>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|Word(value)| value).collect())
}

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

struct Word<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Letters(PhantomData)).map(Self)
    }
}

struct Letters<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Letters<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::deserialize(text.into_deserializer())
    }
}
