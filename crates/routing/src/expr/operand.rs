//! Values of variables.

use std::borrow::Cow;

/// The value of a variable at the moment of evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    Nil,
    Bytes(Cow<'a, [u8]>),
    Number(f64),
    Boolean(bool),
    List(Vec<Operand<'a>>),
}

impl<'a> From<&'a str> for Operand<'a> {
    fn from(text: &'a str) -> Self {
        Operand::Bytes(Cow::Borrowed(text.as_bytes()))
    }
}
