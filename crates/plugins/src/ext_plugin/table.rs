//! Reads FlatBuffers: each place is looked for within the message, whatever its offsets say.
//!
//! A table begins with the way back to its list of offsets (of 16 bits, one for each field; 0: the field is not there). What is
//! longer than a number is elsewhere: the field holds how far ahead.

/// A message that its own offsets lead out of, or in which something is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) type Read<T> = Result<T, Malformed>;

/// Header fields or arguments of one message.
const MOST_ENTRIES: usize = 1000;
/// Their names and values together: offsets may name the same text many times.
const MOST_ENTRY_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    data: &'a [u8],
    at: usize,
    /// The offsets of the fields.
    fields: &'a [u8],
}

/// A name, with a value unless it is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub name: &'a [u8],
    pub value: Option<&'a [u8]>,
}

fn number<const N: usize>(data: &[u8], at: usize) -> Read<[u8; N]> {
    data.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(Malformed)
}

fn long(data: &[u8], at: usize) -> Read<usize> {
    usize::try_from(u32::from_le_bytes(number(data, at)?)).map_err(|_| Malformed)
}

/// Where the offset at this place leads.
fn ahead(data: &[u8], at: usize) -> Read<usize> {
    at.checked_add(long(data, at)?).ok_or(Malformed)
}

impl<'a> Table<'a> {
    /// The table that the message is about.
    pub(super) fn root(data: &'a [u8]) -> Read<Table<'a>> {
        Table::at(data, ahead(data, 0)?)
    }

    fn at(data: &'a [u8], at: usize) -> Read<Table<'a>> {
        let back = i64::from(i32::from_le_bytes(number(data, at)?));
        let list = i64::try_from(at).ok().and_then(|at| at.checked_sub(back)).ok_or(Malformed)?;
        let list = usize::try_from(list).map_err(|_| Malformed)?;
        let length = usize::from(u16::from_le_bytes(number(data, list)?));
        let fields = data.get(list..).and_then(|rest| rest.get(4..length)).ok_or(Malformed)?;
        Ok(Table { data, at, fields })
    }

    /// Where the field with this number is; `None`: not there.
    fn place(&self, field: usize) -> Read<Option<usize>> {
        let Ok(offset) = number(self.fields, 2 * field) else { return Ok(None) };
        match usize::from(u16::from_le_bytes(offset)) {
            0 => Ok(None),
            offset => self.at.checked_add(offset).map(Some).ok_or(Malformed),
        }
    }

    fn value<const N: usize>(&self, field: usize) -> Read<[u8; N]> {
        self.place(field)?.map_or(Ok([0; N]), |place| number(self.data, place))
    }

    pub(super) fn u8(&self, field: usize) -> Read<u8> {
        self.value(field).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&self, field: usize) -> Read<u16> {
        self.value(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&self, field: usize) -> Read<u32> {
        self.value(field).map(u32::from_le_bytes)
    }

    /// A text, or a list of bytes.
    pub(super) fn bytes(&self, field: usize) -> Read<Option<&'a [u8]>> {
        let Some(place) = self.place(field)? else { return Ok(None) };
        let start = ahead(self.data, place)?;
        let length = long(self.data, start)?;
        self.data.get(start..).and_then(|rest| rest.get(4..)?.get(..length)).map(Some).ok_or(Malformed)
    }

    pub(super) fn table(&self, field: usize) -> Read<Option<Table<'a>>> {
        let Some(place) = self.place(field)? else { return Ok(None) };
        Table::at(self.data, ahead(self.data, place)?).map(Some)
    }

    /// A list of `TextEntry`.
    pub(super) fn entries(&self, field: usize) -> Read<Vec<Entry<'a>>> {
        let Some(place) = self.place(field)? else { return Ok(Vec::new()) };
        let start = ahead(self.data, place)?;
        let count = long(self.data, start)?;
        if count > MOST_ENTRIES {
            return Err(Malformed);
        }
        let mut entries = Vec::with_capacity(count);
        let mut bytes = 0;
        for number in 0..count {
            let table = Table::at(self.data, ahead(self.data, start + 4 * (number + 1))?)?;
            let (name, value) = (table.bytes(0)?.ok_or(Malformed)?, table.bytes(1)?);
            bytes += name.len() + value.map_or(0, <[u8]>::len);
            if bytes > MOST_ENTRY_BYTES {
                return Err(Malformed);
            }
            entries.push(Entry { name, value });
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Field, Frame};
    use super::*;

    fn message() -> Vec<u8> {
        let entries = [
            Entry { name: b"a", value: Some(b"12345") },
            Entry { name: b"gone", value: None },
            Entry { name: b"empty", value: Some(b"") },
        ];
        let fields = [
            Field::Absent,
            Field::U8(7),
            Field::Text(b"text"),
            Field::U16(404),
            Field::Entries(&entries),
            Field::Bytes(b"\0\xff"),
            Field::U32(0xdead_beef),
        ];
        Frame::new(3, &fields).expect("short").bytes()[4..].to_vec()
    }

    fn read(data: &[u8]) -> Read<()> {
        let table = Table::root(data)?;
        let _ = (table.u8(1)?, table.u16(3)?, table.u32(6)?, table.bytes(2)?, table.bytes(5)?);
        let _ = (table.entries(4)?, table.table(4), table.u32(0)?, table.u32(100)?);
        Ok(())
    }

    #[test]
    fn what_is_written_is_read() {
        let data = message();
        let table = Table::root(&data).expect("a table");
        assert_eq!(
            (table.u32(0), table.u8(1), table.u16(3), table.u32(6)),
            (Ok(0), Ok(7), Ok(404), Ok(0xdead_beef))
        );
        assert_eq!((table.bytes(2), table.bytes(5)), (Ok(Some(&b"text"[..])), Ok(Some(&b"\0\xff"[..]))));
        assert_eq!((table.bytes(0), table.bytes(90)), (Ok(None), Ok(None)));
        let entries = table.entries(4).expect("entries");
        assert_eq!(
            entries.iter().map(|entry| (entry.name, entry.value)).collect::<Vec<_>>(),
            [(&b"a"[..], Some(&b"12345"[..])), (b"gone", None), (b"empty", Some(b"")),]
        );
    }

    #[test]
    fn damaged_messages_are_refused_or_read_within_their_bounds() {
        let data = message();
        for cut in 0..data.len() {
            let _ = read(&data[..cut]);
        }
        assert_eq!(read(&data[..8]), Err(Malformed));
        let mut refused = 0;
        for at in 0..data.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = data.clone();
                damaged[at] = value;
                refused += usize::from(read(&damaged).is_err());
            }
        }
        assert!(refused > 50, "{refused}");
    }

    #[test]
    fn lists_are_bounded() {
        let entry = Entry { name: b"n", value: Some(&[b'x'; 2000]) };
        let of = |count: usize| {
            let entries = vec![entry; count];
            let frame = Frame::new(2, &[Field::Entries(&entries)]).expect("short");
            Table::root(&frame.bytes()[4..]).and_then(|table| table.entries(0).map(|entries| entries.len()))
        };
        assert_eq!(of(500), Ok(500));
        assert_eq!(of(600), Err(Malformed), "too many bytes");
        assert_eq!(of(1001), Err(Malformed));
    }
}
