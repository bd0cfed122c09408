//! Answers of Redis, taken apart.

use bytes::Bytes;
use redis::Value;

use crate::fault::Fault;

fn odd() -> Fault {
    Fault::Corrupt("Redis answered with something unexpected".into())
}

/// A string, or nothing.
pub(crate) fn bytes(value: Value) -> Result<Option<Bytes>, Fault> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        Value::SimpleString(text) => Ok(Some(text.into_bytes().into())),
        Value::Int(number) => Ok(Some(number.to_string().into_bytes().into())),
        _ => Err(odd()),
    }
}

/// An array.
pub(crate) fn array(value: Value) -> Result<Vec<Value>, Fault> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        _ => Err(odd()),
    }
}

/// Strings, none of them missing.
pub(crate) fn strings(value: Value) -> Result<Vec<Bytes>, Fault> {
    array(value)?.into_iter().map(|value| bytes(value)?.ok_or_else(odd)).collect()
}

/// Names and values, or members and scores.
pub(crate) fn pairs(value: Value) -> Result<Vec<(Bytes, Bytes)>, Fault> {
    let strings = strings(value)?;
    let pair = |pair: &[Bytes]| match pair {
        [one, other] => Ok((one.clone(), other.clone())),
        _ => Err(odd()),
    };
    strings.chunks(2).map(pair).collect()
}

/// Members and their scores, which here are whole numbers.
pub(crate) fn scored(value: Value) -> Result<Vec<(i64, Bytes)>, Fault> {
    let pairs = pairs(value)?.into_iter();
    pairs.map(|(member, score)| Ok((number(&score)?, member))).collect()
}

/// Entries of a stream: the one string that each holds.
pub(crate) fn entries(value: Value) -> Result<Vec<Bytes>, Fault> {
    let entry = |value: Value| {
        let fields = array(value)?.into_iter().nth(1).ok_or_else(odd)?;
        strings(fields)?.into_iter().nth(1).ok_or_else(odd)
    };
    array(value)?.into_iter().map(entry).collect()
}

/// A whole number. Redis writes scores as floating-point numbers; all of ours are exact.
pub(crate) fn number(bytes: &[u8]) -> Result<i64, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| odd())?;
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let float: f64 = text.parse().map_err(|_| odd())?;
    Ok(float as i64)
}

/// A number that Redis answered with.
pub(crate) fn integer(value: Value) -> Result<i64, Fault> {
    match value {
        Value::Int(integer) => Ok(integer),
        other => bytes(other)?.map_or(Ok(0), |bytes| number(&bytes)),
    }
}
