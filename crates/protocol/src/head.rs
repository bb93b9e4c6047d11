//! A head: the received bytes plus an index of (name, value) ranges.
//!
//! Edits append a finished `Name: value CRLF` line to the same bytes and point the index at it, so writing a head
//! out is a few copies of runs of lines, and an untouched head is one. Case and order of the peer survive.

mod setting;

pub use self::setting::FieldName;
use crate::{
    claims,
    known::HeaderId,
    names::{self, Signs},
    scan,
};

/// Where one header field is in [`Head`]'s bytes.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name_at: u32,
    value_at: u32,
    value_len: u32,
    name_len: u16,
    /// [`HeaderId::Other`] for names that the gateway does not act on.
    pub id: HeaderId,
    /// The bytes are exactly `Name: value CRLF`, so that the line can be copied unchanged.
    canonical: bool,
}

impl Field {
    fn line_end(&self) -> usize {
        self.value_at as usize + self.value_len as usize + 2
    }

    fn name_in<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let at = self.name_at as usize;
        bytes.get(at..at + self.name_len as usize).unwrap_or_default()
    }

    fn value_in<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let at = self.value_at as usize;
        bytes.get(at..at + self.value_len as usize).unwrap_or_default()
    }
}

/// Of the set [`Head::lengths`].
#[inline]
const fn length_bit(length: usize) -> u32 {
    1 << (length & 31)
}

fn seen_bits(id: HeaderId, name: &[u8]) -> u64 {
    seen_of(id, name, || if scan::is_plain(name) { Signs::Dashes } else { Signs::Others })
}

#[inline]
fn seen_of(id: HeaderId, name: &[u8], signs: impl FnOnce() -> Signs) -> u64 {
    if id != HeaderId::Other {
        return id.bit();
    }
    let prefixed = if claims::may_have_prefix(name) { PREFIXED } else { 0 };
    let signed = if signs() == Signs::Others { SIGNED } else { 0 };
    id.bit() | prefixed | signed
}

/// Header fields in one buffer, with an index of ranges.
#[derive(Clone, Debug, Default)]
pub struct Head {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    /// A bit for each [`HeaderId`] that was ever among the fields, so that looking for an absent field costs nothing;
    /// [`PREFIXED`] and [`SIGNED`].
    seen: u64,
    /// A bit for each length (modulo 32) of the names that were ever among the fields: of most names that only a
    /// configuration knows, it tells that they are absent.
    lengths: u32,
    /// Bytes before this in `bytes` were received; later ones were added.
    received_end: u32,
}

/// A line break inside a value would start a new field: it becomes a space.
#[cold]
fn without_line_breaks(value: &mut [u8]) {
    for byte in value {
        if matches!(*byte, b'\r' | b'\n' | 0) {
            *byte = b' ';
        }
    }
}

/// Room for the first fields that are added to a head without memory.
const FIRST_BYTES: usize = 240;

/// How many fields of a received head were left out; 255 also means more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Claims spelled with `_` or another sign: see [`crate::claims`].
    pub claims: u8,
    /// Other names with `_`, where they are not taken.
    pub underscored: u8,
    /// Names with other signs than `-` and `_`.
    pub invalid: u8,
}

/// The bit for an unknown name that may begin as a claim does (see [`claims`]).
const PREFIXED: u64 = 1 << 63;

/// The bit for a name with `_` or another sign that is not a dash: no known name has one.
const SIGNED: u64 = 1 << 62;

/// The ids of claims that a head can make, but for those of framing, which are never passed on. With them `CDN-Loop`, which
/// the gateway has to look at as rarely.
const CLAIMS: u64 = HeaderId::Forwarded.bit()
    | HeaderId::XForwardedFor.bit()
    | HeaderId::XForwardedProto.bit()
    | HeaderId::XForwardedHost.bit()
    | HeaderId::XForwardedPort.bit()
    | HeaderId::XRealIp.bit()
    | HeaderId::XConsumerUsername.bit()
    | HeaderId::XConsumerCustomId.bit()
    | HeaderId::XCredentialIdentifier.bit()
    | HeaderId::XUserinfo.bit()
    | HeaderId::XIdToken.bit()
    | HeaderId::XRawIdToken.bit()
    | HeaderId::XRefreshToken.bit()
    | HeaderId::XAccessToken.bit()
    | HeaderId::CdnLoop.bit()
    | PREFIXED;

impl Head {
    /// Without fields and without memory.
    pub fn new() -> Head {
        Head::default()
    }

    /// Forgets everything but keeps the allocations.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.seen = 0;
        self.lengths = 0;
        self.received_end = 0;
    }

    /// Bytes of text it holds memory for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Everything received and appended.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the bytes that the index refers to.
    pub(crate) fn load(&mut self, received: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(received);
    }

    /// Adds a received field: `name_at` in the bytes that are loaded, `value_at` from there.
    #[inline]
    pub(crate) fn index(
        &mut self,
        (name, id, signs): (&[u8], HeaderId, Signs),
        name_at: usize,
        value_at: usize,
        value_len: usize,
        canonical: bool,
    ) {
        self.seen |= seen_of(id, name, || signs);
        self.lengths |= length_bit(name.len());
        self.fields.push(Field {
            name_at: name_at as u32,
            value_at: (name_at + value_at) as u32,
            value_len: value_len as u32,
            name_len: name.len() as u16,
            id,
            canonical,
        });
    }

    /// Appends a line whose value `write` appends. `id` is that of `name`.
    #[inline]
    fn append_line(&mut self, name: &[u8], id: HeaderId, write: impl FnOnce(&mut Vec<u8>)) -> Field {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(FIRST_BYTES);
        }
        let name_at = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        let value_at = self.bytes.len();
        write(&mut self.bytes);
        if scan::first_control(&self.bytes, value_at).is_some() {
            without_line_breaks(self.bytes.get_mut(value_at..).unwrap_or_default());
        }
        let value_len = self.bytes.len().saturating_sub(value_at);
        self.bytes.extend_from_slice(b"\r\n");
        Field {
            name_at: name_at as u32,
            value_at: value_at as u32,
            value_len: value_len as u32,
            name_len: name.len().min(u16::MAX as usize) as u16,
            id,
            canonical: true,
        }
    }

    /// Marks the end of the received fields: later ones are added.
    pub(crate) fn end_of_received(&mut self) {
        self.received_end = self.bytes.len() as u32;
    }

    /// Whether some field is, or was, a claim that [`claims::of`] knows, spelled with dashes. `false` is certain.
    pub fn may_have_claims(&self) -> bool {
        self.seen & CLAIMS != 0
    }

    /// Whether some name has, or had, a sign other than the dash.
    pub(crate) fn has_signs(&self) -> bool {
        self.seen & SIGNED != 0
    }

    /// Whether some name may have `_` in place of a dash. `false` is certain.
    pub fn may_have_underscores(&self) -> bool {
        self.has_signs()
    }

    /// Whether there is a field of this name, or was one before it was removed.
    pub fn had(&self, id: HeaderId) -> bool {
        self.has_seen(id)
    }

    fn has_seen(&self, id: HeaderId) -> bool {
        self.seen & id.bit() != 0
    }

    /// Whether a field of this name, with this id, may be there. `false` is certain.
    #[inline]
    fn may_have(&self, id: HeaderId, length: usize) -> bool {
        self.has_seen(id) && self.lengths & length_bit(length) != 0
    }

    /// As received.
    pub fn name(&self, field: &Field) -> &[u8] {
        field.name_in(&self.bytes)
    }

    /// Without white space around it.
    pub fn value(&self, field: &Field) -> &[u8] {
        field.value_in(&self.bytes)
    }

    /// In the order received.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Names and values, in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (self.name(field), self.value(field)))
    }

    fn matches(&self, field: &Field, id: HeaderId, name: &[u8]) -> bool {
        field.id == id && (id != HeaderId::Other || self.name(field).eq_ignore_ascii_case(name))
    }

    /// The first value of a known header.
    pub fn known(&self, id: HeaderId) -> Option<&[u8]> {
        if !self.has_seen(id) {
            return None;
        }
        self.fields.iter().find(|field| field.id == id).map(|field| self.value(field))
    }

    /// The values of all fields of the name, in order.
    pub fn all_known(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        let fields = if self.has_seen(id) { &self.fields[..] } else { &[] };
        fields.iter().filter(move |field| field.id == id).map(|field| self.value(field))
    }

    /// The first value of a header, by name in any case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let id = HeaderId::of(name.as_bytes());
        if !self.may_have(id, name.len()) {
            return None;
        }
        self.fields
            .iter()
            .find(|field| self.matches(field, id, name.as_bytes()))
            .map(|field| self.value(field))
    }

    /// Like [`Head::get`] for values that must be text.
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The values of all fields of the name, in any case of letters.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let id = HeaderId::of(name.as_bytes());
        self.fields
            .iter()
            .filter(move |field| self.matches(field, id, name.as_bytes()))
            .map(|field| self.value(field))
    }

    /// Whether there is a field of the name, in any case of letters.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Adds a field at the end. Line breaks in the value become spaces.
    pub fn add(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let name = name.as_ref();
        let id = HeaderId::of(name);
        self.push_line(name, id, seen_bits(id, name), |bytes| bytes.extend_from_slice(value.as_ref()));
    }

    #[inline]
    fn push_line(&mut self, name: &[u8], id: HeaderId, seen: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let field = self.append_line(name, id, write);
        self.seen |= seen;
        self.lengths |= length_bit(name.len());
        self.fields.push(field);
    }

    /// Replaces the first field of that name and removes the others, or adds it.
    #[inline]
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.set_with(name, |bytes| bytes.extend_from_slice(value.as_ref()));
    }

    /// As [`Head::set`], with the value that `write` appends.
    #[inline]
    pub fn set_with(&mut self, name: impl AsRef<[u8]>, write: impl FnOnce(&mut Vec<u8>)) {
        let name = name.as_ref();
        let new = self.append_line(name, HeaderId::of(name), write);
        self.put(new, seen_bits(new.id, name));
    }

    /// Puts a line of this head instead of the first field of its name.
    fn put(&mut self, new: Field, seen: u64) {
        let length = usize::from(new.name_len);
        let may_be_there = self.may_have(new.id, length);
        self.seen |= seen;
        self.lengths |= length_bit(length);
        if !may_be_there {
            self.fields.push(new);
            return;
        }
        let bytes = &self.bytes;
        let name = new.name_in(bytes);
        // Names of one length are few.
        let is_same = |field: &Field| {
            field.id == new.id
                && field.name_len == new.name_len
                && (new.id != HeaderId::Other || field.name_in(bytes).eq_ignore_ascii_case(name))
        };
        let Some(first) = self.fields.iter().position(is_same) else {
            self.fields.push(new);
            return;
        };
        let mut at = 0;
        self.fields.retain_mut(|field| {
            let is_kept = at <= first || !is_same(field);
            if at == first {
                *field = new;
            }
            at += 1;
            is_kept
        });
    }

    /// Removes every field of that name; returns whether there was one.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        let id = HeaderId::of(name);
        if !self.may_have(id, name.len()) {
            return false;
        }
        let before = self.fields.len();
        let bytes = &self.bytes;
        self.fields.retain(|field| {
            let same =
                field.id == id && (id != HeaderId::Other || field.name_in(bytes).eq_ignore_ascii_case(name));
            !same
        });
        before != self.fields.len()
    }

    /// Removes all fields of the name.
    pub fn remove_known(&mut self, id: HeaderId) {
        if self.has_seen(id) {
            self.fields.retain(|field| field.id != id);
        }
    }

    /// Keeps the fields for whose name and value `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let bytes = &self.bytes;
        self.fields.retain(|field| keep(field.name_in(bytes), field.value_in(bytes)));
    }

    /// As [`Head::retain`], asking only about fields that may be claims: see [`Head::may_have_claims`].
    pub fn retain_claims(&mut self, mut keep: impl FnMut(HeaderId, &[u8], &[u8]) -> bool) {
        let bytes = &self.bytes;
        self.fields.retain(|field| {
            let name = field.name_in(bytes);
            seen_bits(field.id, name) & CLAIMS == 0 || keep(field.id, name, field.value_in(bytes))
        });
    }

    /// Removes the fields that were received under a name, not those that were added since; returns how many.
    pub fn remove_received(&mut self, id: HeaderId) -> usize {
        if !self.has_seen(id) {
            return 0;
        }
        let (before, end) = (self.fields.len(), self.received_end);
        self.fields.retain(|field| field.id != id || field.name_at >= end);
        before - self.fields.len()
    }

    /// As [`Head::remove`], of every spelling that is the same name to an upstream that folds signs. Returns how many
    /// removed fields [`Head::remove`] would have left.
    pub fn remove_folded(&mut self, name: impl AsRef<[u8]>) -> usize {
        let name = name.as_ref();
        if self.lengths & length_bit(name.len()) == 0 {
            return 0;
        }
        let mut others = 0;
        let bytes = &self.bytes;
        let is_same = |field: &Field| {
            usize::from(field.name_len) == name.len() && claims::same_name(field.name_in(bytes), name)
        };
        if self.fields.iter().any(is_same) {
            self.fields.retain(|field| {
                let same = is_same(field);
                others += usize::from(same && !field.name_in(bytes).eq_ignore_ascii_case(name));
                !same
            });
        }
        others
    }

    /// Whether there is a field that is not of this name, and is to an upstream that folds signs.
    pub fn has_other_spelling(&self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        let may_be = self.has_signs() || names::has_other_sign(name);
        let other = |found: &[u8]| claims::same_name(found, name) && !found.eq_ignore_ascii_case(name);
        may_be && self.iter().any(|(found, _)| other(found))
    }

    /// Writes the field lines for which `keep` returns true, in order, merging neighbours into one copy.
    pub fn write_fields(&self, out: &mut Vec<u8>, mut keep: impl FnMut(&Field) -> bool) {
        let (mut run_start, mut run_end) = (0usize, 0usize);
        for field in &self.fields {
            if !keep(field) {
                continue;
            }
            let start = field.name_at as usize;
            if field.canonical {
                if start == run_end {
                    run_end = field.line_end();
                    continue;
                }
                out.extend_from_slice(self.bytes.get(run_start..run_end).unwrap_or_default());
                (run_start, run_end) = (start, field.line_end());
            } else {
                out.extend_from_slice(self.bytes.get(run_start..run_end).unwrap_or_default());
                (run_start, run_end) = (0, 0);
                out.extend_from_slice(self.name(field));
                out.extend_from_slice(b": ");
                out.extend_from_slice(self.value(field));
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(self.bytes.get(run_start..run_end).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(head: &Head) -> String {
        let mut out = Vec::new();
        head.write_fields(&mut out, |_| true);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn edits_keep_order_and_case() {
        let mut head = Head::new();
        head.add("X-One", "1");
        head.add("x-two", "2");
        head.add("X-ONE", "3");
        head.set("x-one", "4");
        head.add("Host", "a");
        assert_eq!(lines(&head), "x-one: 4\r\nx-two: 2\r\nHost: a\r\n");
        assert!(head.remove("X-Two"));
        assert!(!head.remove("X-Two"));
        assert_eq!(lines(&head), "x-one: 4\r\nHost: a\r\n");
        assert_eq!(head.known(HeaderId::Host), Some(&b"a"[..]));
    }

    #[test]
    fn all_fields_of_another_head_are_set() {
        let mut head = Head::new();
        for (name, value) in [("X-One", "1"), ("Server", "a"), ("x-one", "2"), ("X-Two", "3")] {
            head.add(name, value);
        }
        let mut other = Head::new();
        for (name, value) in
            [("server", "b"), ("X-ONE", "4"), ("X_Three", "5"), ("x-four", "6"), ("X-Four", "7")]
        {
            other.add(name, value);
        }
        let mut one_by_one = head.clone();
        other.iter().for_each(|(name, value)| one_by_one.set(name, value));
        head.set_all(&other);
        assert_eq!(lines(&head), "X-ONE: 4\r\nserver: b\r\nX-Two: 3\r\nX_Three: 5\r\nX-Four: 7\r\n");
        assert_eq!(lines(&head), lines(&one_by_one));
        assert_eq!((head.seen, head.get("x-four")), (one_by_one.seen, Some(&b"7"[..])));
    }

    #[test]
    fn spellings() {
        let mut head = Head::new();
        head.add("X-A", "1");
        head.add("Y_B", "2");
        for (name, expected) in [("x-a", false), ("X_A", true), ("y-b", true), ("Y_b", false), ("z-a", false)]
        {
            assert_eq!(head.has_other_spelling(name), expected, "{name}");
        }
    }

    #[test]
    fn a_value_cannot_start_a_new_line() {
        let mut head = Head::new();
        head.set("A", "x\r\nB: y");
        assert_eq!(lines(&head), "A: x  B: y\r\n");
        for length in 1..40 {
            for at in 0..length {
                let mut value = vec![b'x'; length];
                let text = |value: &[u8]| format!("A: {}\r\n", String::from_utf8_lossy(value));
                for (byte, expected) in
                    [(b'\r', b' '), (b'\n', b' '), (0, b' '), (b'\t', b'\t'), (0x7f, 0x7f)]
                {
                    value[at] = byte;
                    head.set("A", &value);
                    value[at] = expected;
                    assert_eq!(lines(&head), text(&value), "{byte} at {at} of {length}");
                }
            }
        }
    }
}
