//! The field that counts how often a request has come back.

use std::sync::LazyLock;

use super::{Origin, Ticket, ticket};

/// `tidegate-` and a number of this process.
pub(super) static NAME: LazyLock<String> = LazyLock::new(|| format!("tidegate-{:016x}", ticket::random()));

pub(super) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Parses a member of ours, ticket included. `None`: the member is another gateway's.
pub(super) fn read(member: &[u8]) -> Option<(Origin, Option<u64>)> {
    let rest = member.strip_prefix(NAME.as_bytes())?.strip_prefix(b";")?;
    let value = |name: &[u8]| {
        let mut parameters = rest.split(|&byte| byte == b';');
        let value = parameters.find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix(b"="))?;
        std::str::from_utf8(value).ok()
    };
    let number = |name: &[u8]| value(name).and_then(|value| value.parse().ok());
    let origin = Origin {
        // With any other value it has come back at least once.
        hops: number(b"hops").unwrap_or(1),
        side: number(b"side").unwrap_or(0),
        ..Origin::default()
    };
    Some((origin, value(b"ticket").and_then(|value| u64::from_str_radix(value, 16).ok())))
}

/// The field's value with a member of ours; members of others stay.
pub(super) fn value<'a>(
    there: impl Iterator<Item = &'a [u8]>,
    next: Origin,
    ticket: Option<&Ticket>,
) -> Vec<u8> {
    let mut value = Vec::new();
    for member in there.flat_map(members).filter(|member| read(member).is_none()) {
        value.extend_from_slice(member);
        value.extend_from_slice(b", ");
    }
    value.extend_from_slice(NAME.as_bytes());
    if let Some(ticket) = ticket {
        value.extend_from_slice(format!(";ticket={ticket}").as_bytes());
    }
    if next.side > 0 {
        value.extend_from_slice(format!(";side={}", next.side).as_bytes());
    }
    value.extend_from_slice(format!(";hops={}", next.hops).as_bytes());
    value
}
