//! Answers as JSON, byte for byte what serde_json makes of them; names of members are text, and numbers
//! have at most 64 bits. Most of an answer is names of members
//! and short texts in which nothing is to be escaped: names are not looked at at all here, texts eight
//! bytes at a time.

mod parts;

use parts::{List, Object};
use serde::ser::{Serialize, Serializer};
use serde_json::Error;

/// How serde_json names a value that is JSON already.
const RAW: &str = "$serde_json::private::RawValue";

/// Writes a value behind `bytes`.
pub(super) fn write(mut bytes: Vec<u8>, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    value.serialize(Json(&mut bytes))?;
    Ok(bytes)
}

/// Where one value goes.
struct Json<'a>(&'a mut Vec<u8>);

impl<'a> Json<'a> {
    /// As serde_json writes it: for what is rare.
    fn plainly(self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        serde_json::to_writer(self.0, value)
    }

    fn word(self, word: &str) -> Result<(), Error> {
        self.0.extend_from_slice(word.as_bytes());
        Ok(())
    }

    fn digits(self, number: u64) -> Result<(), Error> {
        let (mut digits, mut rest, mut count) = ([b'0'; 20], number, 0);
        for digit in digits.iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
            count += 1;
            if rest == 0 {
                break;
            }
        }
        self.0.extend(digits.iter().skip(digits.len() - count));
        Ok(())
    }

    fn list(self) -> List<'a> {
        self.0.push(b'[');
        List { bytes: self.0, is_first: true, end: "]" }
    }

    fn object(self) -> Object<'a> {
        self.0.push(b'{');
        Object { bytes: self.0, is_first: true, is_raw: false, end: "}" }
    }

    /// Opens an object with one member, whose value follows.
    fn variant(self, variant: &'static str) -> Self {
        self.0.push(b'{');
        name(self.0, variant);
        self
    }
}

/// A name of the code's own, in which nothing is to be escaped.
fn name(bytes: &mut Vec<u8>, name: &'static str) {
    bytes.push(b'"');
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b"\":");
}

/// Whether JSON wants some byte of a text escaped.
fn needs_escapes(text: &str) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    words.iter().any(|word| {
        let word = u64::from_ne_bytes(*word);
        let is = |byte: u64| {
            let zero_where = word ^ (ONES * byte);
            zero_where.wrapping_sub(ONES) & !zero_where
        };
        let is_control = word.wrapping_sub(ONES * 0x20) & !word;
        (is_control | is(b'"'.into()) | is(b'\\'.into())) & (ONES * 0x80) != 0
    }) || rest.iter().any(|byte| matches!(byte, ..0x20 | b'"' | b'\\'))
}

impl<'a> Serializer for Json<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Object<'a>;
    type SerializeStruct = Object<'a>;
    type SerializeStructVariant = Object<'a>;

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        if needs_escapes(text) {
            return self.plainly(text);
        }
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'"');
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.word(if value { "true" } else { "false" })
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.digits(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.digits(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.digits(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.digits(value)
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        if value < 0 {
            self.0.push(b'-');
        }
        self.digits(value.unsigned_abs())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.plainly(&value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.plainly(&value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.plainly(&value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.plainly(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.word("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let Json(bytes) = self.variant(variant);
        value.serialize(Json(bytes))?;
        bytes.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'a>, Error> {
        Ok(List { end: "]}", ..self.variant(variant).list() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Object<'a>, Error> {
        Ok(self.object())
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Object<'a>, Error> {
        if name == RAW {
            return Ok(Object { bytes: self.0, is_first: true, is_raw: true, end: "" });
        }
        Ok(self.object())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Object<'a>, Error> {
        Ok(Object { end: "}}", ..self.variant(variant).object() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;
    use serde_json::value::RawValue;

    use super::*;

    fn same<T: Serialize + ?Sized>(value: &T) {
        let written = String::from_utf8(write(Vec::new(), &value).unwrap()).unwrap();
        assert_eq!(written, serde_json::to_string(value).unwrap());
    }

    #[derive(Serialize)]
    enum Kind {
        Plain,
        Newtype(u8),
        Tuple(u8, &'static str),
        Struct { a: u8, b: Option<Unit> },
    }

    #[derive(Serialize)]
    struct Unit;

    #[derive(Serialize)]
    struct Pair(u8, Unit);

    #[derive(Serialize)]
    struct Empty {}

    #[derive(Serialize)]
    struct Everything {
        #[serde(rename = "type")]
        text: &'static str,
        character: char,
        bytes: &'static [u8],
        unsigned: (u8, u16, u32, u64),
        signed: (i8, i16, i32, i64),
        floats: Vec<f64>,
        small: f32,
        flags: [bool; 2],
        nothing: Option<u8>,
        kinds: Vec<Kind>,
        map: BTreeMap<String, Pair>,
        raw: Box<RawValue>,
        empty: (Vec<u8>, Empty, BTreeMap<String, u8>),
        #[serde(flatten)]
        flat: BTreeMap<&'static str, u8>,
    }

    #[test]
    fn every_shape_is_written_as_serde_json_does() {
        let raw = RawValue::from_string(r#"{ "a" : [1,  "\u00e9\"\n"] }"#.into()).unwrap();
        let b = || Some(Unit);
        same(&Everything {
            text: "é",
            character: '"',
            bytes: b"\x00a",
            unsigned: (u8::MAX, 0, 1_000_000, u64::MAX),
            signed: (i8::MIN, -1, 10, i64::MIN),
            floats: vec![0.0, -0.0, 1.5, 1e300, 0.1 + 0.2, f64::NAN, f64::INFINITY, 300.0],
            small: 0.1,
            flags: [true, false],
            nothing: None,
            kinds: vec![
                Kind::Plain,
                Kind::Newtype(1),
                Kind::Tuple(2, "\\"),
                Kind::Struct { a: 3, b: b() },
            ],
            map: [("a\"b".into(), Pair(1, Unit)), ("c".into(), Pair(2, Unit))].into(),
            raw,
            empty: (Vec::new(), Empty {}, BTreeMap::new()),
            flat: [("x", 1), ("y", 2)].into(),
        });
        same(&[0_u64, 9, 10, 99, 100, 12_345_678_901_234_567_890]);
    }

    #[test]
    fn every_character_is_escaped_where_it_must_be_wherever_it_stands() {
        for character in (0..0x180).filter_map(char::from_u32) {
            for before in 0..20 {
                for after in [0, 1, 9] {
                    let text: String = std::iter::repeat_n('a', before)
                        .chain([character])
                        .chain(std::iter::repeat_n('é', after))
                        .collect();
                    same(&text);
                }
            }
        }
    }

    #[test]
    fn a_name_that_is_no_text_is_refused() {
        assert!(write(Vec::new(), &BTreeMap::from([(1, 2)])).is_err());
    }
}
