//! What has parts: lists and objects.

use std::fmt;
use std::io::Write;

use serde::ser::{self, Error as _, Serialize};
use serde_json::Error;

use super::{Json, name};

pub(super) struct List<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    pub(super) is_first: bool,
    pub(super) end: &'static str,
}

impl List<'_> {
    fn item(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_first) {
            self.bytes.push(b',');
        }
        value.serialize(Json(self.bytes))
    }

    fn close(self) -> Result<(), Error> {
        Json(self.bytes).word(self.end)
    }
}

/// One trait for each kind of list, all the same.
macro_rules! list {
    ($($of:ident: $item:ident),*) => {$(
        impl ser::$of for List<'_> {
            type Ok = ();
            type Error = Error;

            fn $item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

list!(
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
);

pub(super) struct Object<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    pub(super) is_first: bool,
    /// Its one member is a text that is JSON already.
    pub(super) is_raw: bool,
    pub(super) end: &'static str,
}

impl Object<'_> {
    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.bytes.push(b',');
        }
    }

    fn member<T: Serialize + ?Sized>(
        &mut self,
        member: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        if self.is_raw {
            return write!(self.bytes, "{}", Verbatim(value)).map_err(Error::custom);
        }
        self.comma();
        name(self.bytes, member);
        value.serialize(Json(self.bytes))
    }
}

impl ser::SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.comma();
        let begin = self.bytes.len();
        key.serialize(Json(self.bytes))?;
        if self.bytes.get(begin) != Some(&b'"') {
            return Err(Error::custom("a member's name is no text"));
        }
        self.bytes.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(Json(self.bytes))
    }

    fn end(self) -> Result<(), Error> {
        Json(self.bytes).word(self.end)
    }
}

/// One trait for each kind of object, all the same.
macro_rules! object {
    ($($of:ident),*) => {$(
        impl ser::$of for Object<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.member(name, value)
            }

            fn end(self) -> Result<(), Error> {
                Json(self.bytes).word(self.end)
            }
        }
    )*};
}

object!(SerializeStruct, SerializeStructVariant);

/// A text as it is: formatters take values that are one.
struct Verbatim<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> fmt::Display for Verbatim<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(formatter)
    }
}
