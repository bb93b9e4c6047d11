//! Formats that are checked. Others say something to the reader only.

use std::net::{Ipv4Addr, Ipv6Addr};

use chrono::{DateTime, NaiveDate};

pub(super) fn fits_number(name: &str, value: f64) -> bool {
    match name {
        "int32" => value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value),
        "int64" => value.fract() == 0.0 && value.abs() <= 9_223_372_036_854_775_808.0,
        _ => true,
    }
}

pub(super) fn fits_text(name: &str, text: &str) -> bool {
    match name {
        "date" => NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() && text.len() == 10,
        "date-time" => DateTime::parse_from_rfc3339(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => is_uuid(text),
        "email" => is_email(text),
        _ => true,
    }
}

fn is_uuid(text: &str) -> bool {
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(
            |(at, byte)| {
                if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
            },
        )
}

fn is_email(text: &str) -> bool {
    let has_blank = text.chars().any(|sign| sign.is_whitespace() || sign.is_control());
    text.rsplit_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !has_blank)
}
