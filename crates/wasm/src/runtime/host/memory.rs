//! A module's memory, as functions read and write it.

use wasmtime::AsContextMut;

use super::abi::{Fail, Host, Outcome, Status};
use crate::runtime::state::State;

/// What a module gives or gets at once.
const MAX_BYTES: u32 = 64 << 20;

fn area(at: u32, length: u32) -> Outcome<std::ops::Range<usize>> {
    if length > MAX_BYTES {
        return Err(Status::InvalidMemoryAccess.into());
    }
    let at = at as usize;
    Ok(at..at + length as usize)
}

fn all<'a>(host: &'a Host<'_>) -> &'a [u8] {
    host.data().memory.map_or(&[], |memory| memory.data(host))
}

/// The memory, and what belongs to the instance beside it.
pub(super) fn split<'a>(host: &'a mut Host<'_>) -> (&'a mut [u8], &'a mut State) {
    match host.data().memory {
        Some(memory) => memory.data_and_store_mut(host),
        None => (&mut [], host.data_mut()),
    }
}

/// Bytes of a memory.
pub(super) fn part(all: &[u8], at: u32, length: u32) -> Outcome<&[u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    all.get(area(at, length)?).ok_or(Fail::Status(Status::InvalidMemoryAccess))
}

fn put(all: &mut [u8], at: u32, bytes: &[u8]) -> Outcome {
    let length = u32::try_from(bytes.len()).map_err(|_| Status::InvalidMemoryAccess)?;
    let place = all.get_mut(area(at, length)?).ok_or(Status::InvalidMemoryAccess)?;
    place.copy_from_slice(bytes);
    Ok(())
}

/// Bytes of the module.
pub(in crate::runtime) fn read<'a>(host: &'a Host<'_>, at: u32, length: u32) -> Outcome<&'a [u8]> {
    part(all(host), at, length)
}

/// A copy of them.
pub(super) fn copy(host: &Host<'_>, at: u32, length: u32) -> Outcome<Vec<u8>> {
    read(host, at, length).map(<[u8]>::to_vec)
}

/// As a text.
pub(super) fn text(host: &Host<'_>, at: u32, length: u32) -> Outcome<String> {
    read(host, at, length).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

pub(super) fn number(host: &Host<'_>, at: u32) -> Outcome<u32> {
    let bytes = read(host, at, 4)?.try_into().map_err(|_| Status::InvalidMemoryAccess)?;
    Ok(u32::from_le_bytes(bytes))
}

pub(super) fn write(host: &mut Host<'_>, at: u32, bytes: &[u8]) -> Outcome {
    put(split(host).0, at, bytes)
}

pub(super) fn write_number(host: &mut Host<'_>, at: u32, number: u32) -> Outcome {
    write(host, at, &number.to_le_bytes())
}

/// Hands bytes over: the module gives memory for them, and gets to know where they are. Nothing is at 0.
pub(super) fn give(host: &mut Host<'_>, bytes: &[u8], return_data: u32, return_size: u32) -> Outcome {
    let length = u32::try_from(bytes.len()).map_err(|_| Status::InternalFailure)?;
    let mut at = 0;
    if length > 0 {
        if length > MAX_BYTES {
            return Err(Status::InternalFailure.into());
        }
        let allocate = host.data().allocate.clone().ok_or_else(|| {
            wasmtime::Error::msg(
                "it exports neither proxy_on_memory_allocate nor malloc, and cannot be given anything",
            )
        })?;
        at = allocate.call(host.as_context_mut(), length)?;
        if at == 0 {
            return Err(Status::InvalidMemoryAccess.into());
        }
    }
    let (all, _) = split(host);
    put(all, at, bytes)?;
    put(all, return_data, &at.to_le_bytes())?;
    put(all, return_size, &length.to_le_bytes())
}

/// Maps of fields as the interface has them: the number of pairs, the lengths of each, and the texts with a NUL behind each.
pub(super) fn serialize<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> Vec<u8> {
    let count = pairs.clone().count();
    let bytes: usize = pairs.clone().map(|(name, value)| name.len() + value.len() + 10).sum();
    let mut out = Vec::with_capacity(bytes + 4);
    out.extend_from_slice(&(count as u32).to_le_bytes());
    for (name, value) in pairs.clone() {
        out.extend_from_slice(&(name.len() as u32).to_le_bytes());
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    }
    for (name, value) in pairs {
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(value);
        out.push(0);
    }
    out
}

/// Names and values.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Fields of one map.
const MAX_FIELDS: usize = 1000;

/// The reverse of [`serialize`]. An empty map is nothing, or zero.
pub(super) fn deserialize(bytes: &[u8]) -> Option<Pairs> {
    if bytes.len() < 4 {
        return Some(Vec::new());
    }
    let number = |at: usize| -> Option<usize> {
        Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize)
    };
    let count = number(0)?;
    if count > MAX_FIELDS {
        return None;
    }
    let mut at = 4 + count * 8;
    let mut pairs = Vec::with_capacity(count);
    let mut take = |length: usize| -> Option<Vec<u8>> {
        let end = at.checked_add(length)?;
        let text = bytes.get(at..end)?.to_vec();
        at = end.checked_add(1)?;
        Some(text)
    };
    for pair in 0..count {
        let name = take(number(4 + pair * 8)?)?;
        let value = take(number(8 + pair * 8)?)?;
        pairs.push((name, value));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_survive_the_way() {
        let check = |pairs: &[(&str, &str)]| {
            let pairs: Pairs = pairs
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect();
            let bytes = serialize(pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice())));
            assert_eq!(deserialize(&bytes), Some(pairs));
        };
        check(&[]);
        check(&[("a", "1"), ("b", "22"), ("empty", "")]);
    }

    #[test]
    fn maps_that_lie_are_refused() {
        for bytes in
            [&[255, 255, 255, 255][..], &[1, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0], &[2, 0, 0, 0, 1]]
        {
            assert_eq!(deserialize(bytes), None, "{bytes:?}");
        }
        assert_eq!(deserialize(&[0]), Some(Vec::new()));
    }
}
