//! JSON that services answered, and JSON that clients sent, with errors in the words of lua-cjson, which APISIX shows.

#[cfg(feature = "lua")]
use std::collections::HashSet;
use std::{fmt, net::IpAddr};

use bytes::Bytes;
use serde_json::Value;
use tidegate_plugin_api::{
    aside::{self, Whose},
    document::{self, Allowance, TooLarge, Unread},
};

/// Values in an answer of a service that a request waits for.
const MAX_ANSWER_VALUES: usize = 65_536;

/// What a service answered. A long answer is read on another thread; a member that is there twice could be read in two ways.
pub async fn of_service(body: Bytes, client: Option<IpAddr>) -> Result<Value, String> {
    let whose = client.map_or(Whose::Ours, Whose::from);
    aside::run_by_size(whose, body.len(), move || of_receiver(&body))
        .await
        .unwrap_or_else(|aside::Undone| Err("it was not read".to_owned()))
}

/// The same where no request waits for it.
pub(crate) fn of_receiver(body: &[u8]) -> Result<Value, String> {
    tidegate_model::json::parse_within(body, MAX_ANSWER_VALUES).map_err(|fault| fault.to_string())
}

/// Why a body cannot be read.
#[derive(Debug, PartialEq)]
pub enum Undecoded {
    /// It is not JSON; the text is lua-cjson's.
    Invalid(String),
    /// It takes more memory than it may.
    TooLarge(TooLarge),
}

impl fmt::Display for Undecoded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undecoded::Invalid(reason) => formatter.write_str(reason),
            Undecoded::TooLarge(error) => error.fmt(formatter),
        }
    }
}

impl Undecoded {
    /// Of the response to a client whose body this is.
    pub fn status(&self) -> u16 {
        match self {
            Undecoded::Invalid(_) => 400,
            Undecoded::TooLarge(error) => error.status(),
        }
    }
}

impl From<TooLarge> for Undecoded {
    fn from(error: TooLarge) -> Self {
        Undecoded::TooLarge(error)
    }
}

impl From<String> for Undecoded {
    fn from(reason: String) -> Self {
        Undecoded::Invalid(reason)
    }
}

/// Nesting is limited by the parser (128 levels).
pub fn decode(text: &[u8], allowance: &Allowance) -> Result<Value, Undecoded> {
    document::parse(text, allowance).map_err(|error| undecoded(text, error))
}

/// As [`decode`], with the members of these names, where the caller needs no others.
#[cfg(feature = "lua")]
pub(crate) fn decode_members(
    text: &[u8],
    allowance: &Allowance,
    only: Option<&HashSet<Box<str>>>,
) -> Result<Value, Undecoded> {
    let Some(only) = only else { return decode(text, allowance) };
    document::parse_members(text, allowance, only).map_err(|error| undecoded(text, error))
}

fn undecoded(text: &[u8], error: Unread) -> Undecoded {
    let error = match error {
        Unread::TooLarge(error) => return Undecoded::TooLarge(error),
        Unread::Syntax(error) => error,
    };
    let at = position(text, error.line(), error.column());
    let wants_key =
        ["trailing comma", "key must be a string"].iter().any(|start| error.to_string().starts_with(start));
    if wants_key && let Some(b'}') = text.get(at - 1) {
        return Undecoded::Invalid(format!(
            "Expected object key string but found T_OBJ_END at character {at}"
        ));
    }
    Undecoded::Invalid(if error.is_eof() || text.get(at - 1..).is_none_or(<[u8]>::is_empty) {
        format!("Expected value but found T_END at character {}", text.len() + 1)
    } else {
        format!("Expected value but found invalid token at character {at}")
    })
}

/// Line and column as a position in the text, from 1.
fn position(text: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        text.split_inclusive(|&byte| byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_place() {
        let cases = [
            ("foo", "Expected value but found invalid token at character 2"),
            ("", "Expected value but found T_END at character 1"),
            ("{\"a\":", "Expected value but found T_END at character 6"),
            ("{\"a\":1,\n}", "Expected object key string but found T_OBJ_END at character 9"),
        ];
        for (text, expected) in cases {
            let error = decode(text.as_bytes(), &Allowance::new(1_000)).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
