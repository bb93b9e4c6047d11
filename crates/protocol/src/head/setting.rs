//! Fields that replace those of their names.

use super::{Field, Head, PREFIXED, SIGNED, seen_bits};
use crate::known::HeaderId;

/// A name that is set again and again: what has to be known about it is found once.
#[derive(Clone, Debug)]
pub struct FieldName {
    name: Box<str>,
    id: HeaderId,
    seen: u64,
}

impl FieldName {
    /// Of a name as it is written.
    pub fn new(name: &str) -> FieldName {
        let id = HeaderId::of(name.as_bytes());
        FieldName { name: name.into(), id, seen: seen_bits(id, name.as_bytes()) }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.name
    }
}

impl Head {
    /// As [`Head::set_with`].
    #[inline]
    pub fn set_named(&mut self, name: &FieldName, write: impl FnOnce(&mut Vec<u8>)) {
        let new = self.append_line(name.name.as_bytes(), name.id, write);
        self.put(new, name.seen);
    }

    /// As [`Head::set`] of a name that the gateway knows, in its usual spelling.
    #[inline]
    pub fn set_known(&mut self, id: HeaderId, value: impl AsRef<[u8]>) {
        let name = id.name().as_bytes();
        let new = self.append_line(name, id, |bytes| bytes.extend_from_slice(value.as_ref()));
        self.put(new, id.bit());
    }

    /// As [`Head::add`].
    #[inline]
    pub fn add_named(&mut self, name: &FieldName, value: impl AsRef<[u8]>) {
        let text = name.name.as_bytes();
        self.push_line(text, name.id, name.seen, |bytes| bytes.extend_from_slice(value.as_ref()));
    }

    /// As [`Head::get`].
    #[inline]
    pub fn get_named(&self, name: &FieldName) -> Option<&[u8]> {
        if !self.may_have(name.id, name.name.len()) {
            return None;
        }
        let same = |field: &&Field| self.matches(field, name.id, name.name.as_bytes());
        self.fields.iter().find(same).map(|field| self.value(field))
    }

    /// As [`Head::remove`].
    #[inline]
    pub fn remove_named(&mut self, name: &FieldName) -> bool {
        self.may_have(name.id, name.name.len()) && self.remove(name.text())
    }

    /// As [`Head::set`] of one field of another head after the other.
    pub fn set_all(&mut self, other: &Head) {
        for field in &other.fields {
            let name = field.name_in(&other.bytes);
            let line = match field.canonical {
                true => other.bytes.get(field.name_at as usize..field.line_end()),
                false => None,
            };
            let Some(line) = line else {
                self.set(name, field.value_in(&other.bytes));
                continue;
            };
            let name_at = self.bytes.len();
            self.bytes.extend_from_slice(line);
            let value_at = (name_at + (field.value_at - field.name_at) as usize) as u32;
            let seen = field.id.bit() | other.seen & (PREFIXED | SIGNED);
            self.put(Field { name_at: name_at as u32, value_at, ..*field }, seen);
        }
    }

    /// As [`Head::set_all`], where no two fields of the other head have one name: one copy, unless a name is here already.
    pub fn set_distinct(&mut self, other: &Head) {
        let ids = other.seen & !(PREFIXED | SIGNED);
        let may_share = self.lengths & other.lengths != 0 && self.seen & ids != 0;
        if may_share || !other.is_one_run() {
            return self.set_all(other);
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        let moved =
            |field: &Field| Field { name_at: field.name_at + at, value_at: field.value_at + at, ..*field };
        self.fields.extend(other.fields.iter().map(moved));
        self.seen |= other.seen;
        self.lengths |= other.lengths;
    }

    /// Whether its bytes are its lines, in order.
    fn is_one_run(&self) -> bool {
        let mut end = 0;
        let is_next = |field: &Field| {
            field.canonical && field.name_at as usize == std::mem::replace(&mut end, field.line_end())
        };
        self.fields.iter().all(is_next) && end == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(head: &Head) -> String {
        head.iter()
            .map(|(name, value)| format!("{}: {}\n", name.escape_ascii(), value.escape_ascii()))
            .collect()
    }

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        fields.iter().for_each(|(name, value)| head.add(name, value));
        head
    }

    #[test]
    fn fields_set_at_once_are_those_set_one_by_one() {
        let limits = [("X-RateLimit-Limit", "5"), ("x_left", "4"), ("X-Consumer-Username", "a")];
        let mut with_gaps = head(&[("X-Gone", "0"), ("X-RateLimit-Limit", "5")]);
        with_gaps.remove("x-gone");
        let others = [head(&limits), with_gaps, head(&[("Server", "me"), ("X-One", "1")]), Head::new()];
        let heads = [
            head(&[]),
            head(&[("Server", "you"), ("Date", "now")]),
            head(&[("x-ratelimit-limit", "9"), ("X-Own", "1")]),
        ];
        for other in &others {
            for before in &heads {
                let (mut once, mut one_by_one) = (before.clone(), before.clone());
                once.set_distinct(other);
                other.iter().for_each(|(name, value)| one_by_one.set(name, value));
                assert_eq!(lines(&once), lines(&one_by_one));
                assert_eq!(once.get("x_left"), one_by_one.get("x_left"));
                assert_eq!(once.seen & one_by_one.seen, one_by_one.seen);
            }
        }
    }

    #[test]
    fn a_prepared_name_is_set_as_any_other() {
        for name in ["X-RateLimit-Limit", "server", "X_Left", "x-consumer-username"] {
            let (mut prepared, mut plain) =
                (head(&[("X-Own", "1"), (name, "0")]), head(&[("X-Own", "1"), (name, "0")]));
            prepared.set_named(&FieldName::new(name), |out| out.extend_from_slice(b"a\r\nb"));
            plain.set(name, "a\r\nb");
            assert_eq!((lines(&prepared), prepared.seen), (lines(&plain), plain.seen), "{name}");
        }
    }

    #[test]
    fn prepared_names_find_and_remove_as_any_other() {
        // Lengths that share a bit of `Head::lengths`, and names that share a length.
        let long = "x-a-name-of-thirty-two-more-letters-here";
        for name in ["X-RateLimit-Limit", "server", "X_Left", "x-own", long] {
            for before in [&[][..], &[(name, "0"), ("X-Own", "1"), (name, "2")], &[("X-One8", "1")]] {
                let (mut prepared, mut plain) = (head(before), head(before));
                let field = FieldName::new(name);
                assert_eq!(prepared.get_named(&field), plain.get(name), "{name}");
                assert_eq!(prepared.remove_named(&field), plain.remove(name), "{name}");
                assert_eq!(prepared.get_named(&field), None, "{name}");
                prepared.add_named(&field, "a\r\nb");
                plain.add(name, "a\r\nb");
                assert_eq!((lines(&prepared), prepared.seen), (lines(&plain), plain.seen), "{name}");
                assert!(!prepared.is_empty());
                prepared.remove_folded(name);
                plain.remove(name);
                assert_eq!(lines(&prepared), lines(&plain), "{name}");
            }
        }
    }

    #[test]
    fn a_known_name_is_set_in_its_usual_spelling() {
        let mut set = head(&[("x-consumer-username", "client"), ("X-Own", "1")]);
        set.set_known(HeaderId::XConsumerUsername, "a");
        assert_eq!(lines(&set), "X-Consumer-Username: a\nX-Own: 1\n");
    }
}
