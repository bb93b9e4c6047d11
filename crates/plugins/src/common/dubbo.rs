//! The head of messages in Dubbo's protocol, version 2: 16 bytes before what is serialized.

/// Of each message.
pub(crate) const HEAD: usize = 16;

const MAGIC: [u8; 2] = [0xda, 0xbb];

/// A request that wants an answer; the lower bits say how its body is serialized.
const REQUEST: u8 = 0xc0;

/// One connection has one call.
const NUMBER: u64 = 1;

/// The call went well.
pub(crate) const OK: u8 = 20;

/// A result that is held.
const MOST_ANSWERED: usize = 16 << 20;

/// How a body is serialized.
#[derive(Clone, Copy)]
pub(crate) enum Serialization {
    Hessian2 = 2,
    Fastjson = 6,
}

/// A call with its head.
pub(crate) fn call(serialization: Serialization, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[REQUEST | serialization as u8, 0]);
    out.extend_from_slice(&NUMBER.to_be_bytes());
    out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// Status and length of an answer.
pub(crate) fn head(head: [u8; HEAD]) -> Result<(u8, usize), &'static str> {
    let [one, two, flags, status, _, _, _, _, _, _, _, _, length @ ..] = head;
    if [one, two] != MAGIC || flags & 0x80 != 0 {
        return Err("what it says is not an answer of Dubbo");
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MOST_ANSWERED { Err("the result is too long") } else { Ok((status, length)) }
}
