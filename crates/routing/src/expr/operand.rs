//! Values of variables.

use std::borrow::Cow;

/// The value of a variable at the moment of evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// No value.
    Nil,
    /// A text, not necessarily UTF-8.
    Bytes(Cow<'a, [u8]>),
    /// As in Lua, a double.
    Number(f64),
    /// Not equal to any text.
    Boolean(bool),
    /// In order.
    List(Vec<Operand<'a>>),
}

impl<'a> From<&'a str> for Operand<'a> {
    fn from(text: &'a str) -> Self {
        Operand::Bytes(Cow::Borrowed(text.as_bytes()))
    }
}
