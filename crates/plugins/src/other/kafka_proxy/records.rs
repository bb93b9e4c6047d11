//! Records as brokers keep them (https://kafka.apache.org/documentation/#messageformat).

use crate::observability::kafka_logger::protocol::{Reader, crc32, crc32c};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

/// The offset and the length in front of a batch.
const PREFIX_BYTES: usize = 12;
const COMPRESSION: i16 = 7;
const APPEND_TIME: i16 = 8;
const CONTROL: i16 = 32;

const DAMAGED: &str = "crc checksum error";
const COMPRESSED: &str = "the records are compressed, which kafka-proxy does not read";

/// Hands on each record whose offset is at least `from`. Brokers send whole batches, which may begin before it, and break the last one
/// off where there is no room for it.
pub(super) fn each<'a>(
    records: &'a [u8],
    from: i64,
    take: &mut dyn FnMut(Record<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = records;
    while let Some((prefix, behind)) = rest.split_at_checked(PREFIX_BYTES) {
        let mut prefix = Reader(prefix);
        let base = prefix.i64()?;
        let length = usize::try_from(prefix.i32()?).map_err(|_| DAMAGED)?;
        let Some((body, behind)) = behind.split_at_checked(length) else { break };
        rest = behind;
        let mut from_on = |record: Record<'a>| if record.offset < from { Ok(()) } else { take(record) };
        // A byte at the same place in all formats.
        match body.get(4) {
            Some(0 | 1) => message(base, body, &mut from_on)?,
            Some(2) => batch(base, body, &mut from_on)?,
            _ => return Err("the format of the records is not known".to_owned()),
        }
    }
    Ok(())
}

/// Before Kafka 0.11.
fn message<'a>(
    offset: i64,
    body: &'a [u8],
    take: &mut dyn FnMut(Record<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader(body);
    if reader.u32()? != crc32(reader.0) {
        return Err(DAMAGED.to_owned());
    }
    let (format, attributes) = (reader.i8()?, reader.i8()?);
    if i16::from(attributes) & COMPRESSION != 0 {
        return Err(COMPRESSED.to_owned());
    }
    let timestamp = if format == 1 { reader.i64()? } else { 0 };
    take(Record { offset, timestamp, key: reader.nullable_bytes()?, value: reader.nullable_bytes()? })
}

fn batch<'a>(
    base: i64,
    body: &'a [u8],
    take: &mut dyn FnMut(Record<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader(body);
    // The leader's epoch, and the format.
    reader.skip(5)?;
    if reader.u32()? != crc32c(reader.0) {
        return Err(DAMAGED.to_owned());
    }
    let attributes = reader.i16()?;
    if attributes & CONTROL != 0 {
        return Ok(());
    }
    if attributes & COMPRESSION != 0 {
        return Err(COMPRESSED.to_owned());
    }
    reader.skip(4)?;
    let (first, last) = (reader.i64()?, reader.i64()?);
    // Of the producer.
    reader.skip(14)?;
    for _ in 0..reader.i32()? {
        let length = usize::try_from(reader.varint()?).map_err(|_| DAMAGED)?;
        let mut record = Reader(reader.take(length)?);
        record.skip(1)?;
        let (later, further) = (record.varint()?, record.varint()?);
        let timestamp = if attributes & APPEND_TIME != 0 { last } else { first.wrapping_add(later) };
        let (key, value) = (record.varbytes()?, record.varbytes()?);
        take(Record { offset: base.wrapping_add(further), timestamp, key, value })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observability::kafka_logger::protocol::record_batch;

    fn found(records: &[u8], from: i64) -> Result<Vec<(i64, i64, Option<Vec<u8>>, Option<Vec<u8>>)>, String> {
        let mut found = Vec::new();
        each(records, from, &mut |record| {
            let owned = |part: Option<&[u8]>| part.map(<[u8]>::to_vec);
            found.push((record.offset, record.timestamp, owned(record.key), owned(record.value)));
            Ok(())
        })?;
        Ok(found)
    }

    fn at(offset: i64, mut batch: Vec<u8>) -> Vec<u8> {
        batch[..8].copy_from_slice(&offset.to_be_bytes());
        batch
    }

    #[test]
    fn batches() {
        let batches =
            [at(4, record_batch(None, b"old", 9)), at(5, record_batch(Some(b"k"), b"new", 10))].concat();
        let new = (5, 10, Some(b"k".to_vec()), Some(b"new".to_vec()));
        assert_eq!(found(&batches, 5), Ok(vec![new]));
        assert_eq!(found(&batches, 0).map(|all| all.len()), Ok(2));
        // The last one is broken off.
        assert_eq!(found(&batches[..batches.len() - 1], 0).map(|all| all.len()), Ok(1));
        let mut damaged = batches.clone();
        *damaged.last_mut().expect("bytes") ^= 1;
        assert_eq!(found(&damaged, 0), Err(DAMAGED.to_owned()));
        let mut odd = batches;
        odd[16] = 3;
        assert!(found(&odd, 0).is_err());
        assert_eq!(found(&[], 0), Ok(Vec::new()));
    }

    /// Attributes of a batch, with the checksum that belongs to them.
    fn with_attributes(attributes: i16) -> Vec<u8> {
        let mut batch = record_batch(None, b"v", 9);
        batch[21..23].copy_from_slice(&attributes.to_be_bytes());
        let sum = crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&sum.to_be_bytes());
        batch
    }

    #[test]
    fn attributes_count() {
        assert_eq!(found(&with_attributes(1), 0), Err(COMPRESSED.to_owned()));
        assert_eq!(found(&with_attributes(CONTROL), 0), Ok(Vec::new()));
        assert_eq!(found(&with_attributes(APPEND_TIME), 0).map(|all| all.len()), Ok(1));
    }

    #[test]
    fn messages_of_old_brokers() {
        let mut body = vec![1, 0];
        body.extend(7_i64.to_be_bytes());
        body.extend([0xff; 4]);
        body.extend([0, 0, 0, 1, b'v']);
        let mut all = 3_i64.to_be_bytes().to_vec();
        all.extend((body.len() as i32 + 4).to_be_bytes());
        all.extend(crc32(&body).to_be_bytes());
        all.extend(&body);
        assert_eq!(found(&all, 0), Ok(vec![(3, 7, None, Some(b"v".to_vec()))]));
        all[13] ^= 1;
        assert_eq!(found(&all, 0), Err(DAMAGED.to_owned()));
    }
}
