//! The bytes of Kafka's protocol, as far as producers and kafka-proxy need them (https://kafka.apache.org/protocol).
//!
//! Versions: Produce 3 and Fetch 4 (record batches, the oldest that current brokers take), ListOffsets 1, Metadata 4 (topics are
//! not created by asking), SaslHandshake 1, SaslAuthenticate 0: brokers from 0.11 on know them all.

pub(crate) const PRODUCE: (i16, i16) = (0, 3);
pub(crate) const FETCH: (i16, i16) = (1, 4);
pub(crate) const LIST_OFFSETS: (i16, i16) = (2, 1);
pub(crate) const METADATA: (i16, i16) = (3, 4);
pub(crate) const SASL_HANDSHAKE: (i16, i16) = (17, 1);
pub(crate) const SASL_AUTHENTICATE: (i16, i16) = (36, 0);

const CLIENT_ID: &str = "tidegate";

/// Builds a request or a part of it; numbers are big-endian.
#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    /// Length (to be filled in by [`Writer::framed`]), header version 1.
    pub(super) fn request((key, version): (i16, i16), correlation: i32) -> Writer {
        let mut writer = Writer(vec![0; 4]);
        writer.i16(key);
        writer.i16(version);
        writer.i32(correlation);
        writer.string(CLIENT_ID);
        writer
    }

    pub(super) fn framed(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        if let Some(place) = self.0.get_mut(..4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        self.0
    }

    pub(crate) fn i8(&mut self, value: i8) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn string(&mut self, value: &str) {
        self.i16(value.len().min(i16::MAX as usize) as i16);
        self.0.extend_from_slice(value.as_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.i32(value.len() as i32);
        self.0.extend_from_slice(value);
    }

    /// Zigzag, as record batches have it.
    fn varint(&mut self, value: i64) {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    fn varbytes(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.varint(-1),
            Some(value) => {
                self.varint(value.len() as i64);
                self.0.extend_from_slice(value);
            }
        }
    }
}

/// Reads an answer; every read says when the bytes end too early.
pub(crate) struct Reader<'a>(pub &'a [u8]);

const SHORT: &str = "response of the broker is too short";

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| SHORT.to_owned())
    }

    pub(crate) fn skip(&mut self, length: usize) -> Result<(), String> {
        self.take(length).map(|_| ())
    }

    pub(crate) fn i8(&mut self) -> Result<i8, String> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, String> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, String> {
        self.array().map(i64::from_be_bytes)
    }

    /// Zigzag, as record batches have it.
    pub(crate) fn varint(&mut self) -> Result<i64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array::<1>()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err("a number in the response of the broker does not end".to_owned())
    }

    pub(crate) fn varbytes(&mut self) -> Result<Option<&'a [u8]>, String> {
        usize::try_from(self.varint()?).ok().map(|length| self.take(length)).transpose()
    }

    pub(crate) fn i32(&mut self) -> Result<i32, String> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn string(&mut self) -> Result<Option<String>, String> {
        let length = self.i16()?;
        match usize::try_from(length) {
            Ok(length) => Ok(Some(String::from_utf8_lossy(self.take(length)?).into_owned())),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], String> {
        self.nullable_bytes().map(Option::unwrap_or_default)
    }

    pub(crate) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, String> {
        usize::try_from(self.i32()?).ok().map(|length| self.take(length)).transpose()
    }

    /// Reads a list of at most so many items; `read` is called for each.
    pub(crate) fn list<T>(
        &mut self,
        most: usize,
        mut read: impl FnMut(&mut Reader<'a>) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let count = usize::try_from(self.i32()?).unwrap_or(0);
        if count > most {
            return Err(format!("answer of the broker has a list of {count} items, more than {most}"));
        }
        (0..count).map(|_| read(self)).collect()
    }
}

/// One record in a batch of format 2.
pub(crate) fn record_batch(key: Option<&[u8]>, value: &[u8], timestamp_ms: i64) -> Vec<u8> {
    let mut record = Writer::default();
    record.i8(0);
    record.varint(0);
    record.varint(0);
    record.varbytes(key);
    record.varbytes(Some(value));
    record.varint(0);
    // What the checksum covers: from the attributes on.
    let mut covered = Writer::default();
    covered.i16(0);
    covered.i32(0);
    covered.i64(timestamp_ms);
    covered.i64(timestamp_ms);
    covered.i64(-1);
    covered.i16(-1);
    covered.i32(-1);
    covered.i32(1);
    covered.varint(record.0.len() as i64);
    covered.0.extend_from_slice(&record.0);
    let mut batch = Writer::default();
    batch.i64(0);
    batch.i32((covered.0.len() + 9) as i32);
    batch.i32(-1);
    batch.i8(2);
    batch.0.extend_from_slice(&crc32c(&covered.0).to_be_bytes());
    batch.0.extend_from_slice(&covered.0);
    batch.0
}

const CASTAGNOLI: [u32; 256] = table(0x82f6_3b78);
const IEEE: [u32; 256] = table(0xedb8_8320);

const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut value, mut bit) = (at as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ polynomial } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
}

fn crc(data: &[u8], table: &[u32; 256]) -> u32 {
    let step = |sum: u32, byte: &u8| table[usize::from(sum as u8 ^ byte)] ^ sum >> 8;
    !data.iter().fold(!0, step)
}

/// Of record batches.
pub(crate) fn crc32c(data: &[u8]) -> u32 {
    crc(data, &CASTAGNOLI)
}

/// Of messages older than record batches.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    crc(data, &IEEE)
}

/// By which a key chooses its partition, as lua-resty-kafka does.
pub(crate) fn key_hash(key: &[u8]) -> u32 {
    crc32(key)
}

/// The protocol's name of an error.
pub(crate) fn name(code: i16) -> Option<&'static str> {
    Some(match code {
        -1 => "UNKNOWN_SERVER_ERROR",
        1 => "OFFSET_OUT_OF_RANGE",
        2 => "CORRUPT_MESSAGE",
        3 => "UNKNOWN_TOPIC_OR_PARTITION",
        4 => "INVALID_FETCH_SIZE",
        5 => "LEADER_NOT_AVAILABLE",
        6 => "NOT_LEADER_OR_FOLLOWER",
        7 => "REQUEST_TIMED_OUT",
        8 => "BROKER_NOT_AVAILABLE",
        9 => "REPLICA_NOT_AVAILABLE",
        10 => "MESSAGE_TOO_LARGE",
        17 => "INVALID_TOPIC_EXCEPTION",
        18 => "RECORD_LIST_TOO_LARGE",
        19 => "NOT_ENOUGH_REPLICAS",
        20 => "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        21 => "INVALID_REQUIRED_ACKS",
        29 => "TOPIC_AUTHORIZATION_FAILED",
        31 => "CLUSTER_AUTHORIZATION_FAILED",
        32 => "INVALID_TIMESTAMP",
        33 => "UNSUPPORTED_SASL_MECHANISM",
        34 => "ILLEGAL_SASL_STATE",
        35 => "UNSUPPORTED_VERSION",
        42 => "INVALID_REQUEST",
        43 => "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        44 => "POLICY_VIOLATION",
        56 => "KAFKA_STORAGE_ERROR",
        58 => "SASL_AUTHENTICATION_FAILED",
        74 => "FENCED_LEADER_EPOCH",
        75 => "UNKNOWN_LEADER_EPOCH",
        76 => "UNSUPPORTED_COMPRESSION_TYPE",
        78 => "OFFSET_NOT_AVAILABLE",
        87 => "INVALID_RECORD",
        89 => "THROTTLING_QUOTA_EXCEEDED",
        _ => return None,
    })
}

/// An error in words.
pub(crate) fn error(code: i16) -> String {
    match name(code) {
        Some(name) => format!("{name} (error {code})"),
        None => format!("error {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_and_numbers() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let mut writer = Writer::default();
        [0, -1, 1, 150].iter().for_each(|value| writer.varint(*value));
        assert_eq!(writer.0, [0, 1, 2, 0xac, 0x02]);
        let mut reader = Reader(&writer.0);
        assert_eq!([0; 4].map(|_: i64| reader.varint()), [Ok(0), Ok(-1), Ok(1), Ok(150)]);
        assert!(Reader(&[0xff; 11]).varint().is_err());
        assert_eq!(Reader(&[1]).varbytes(), Ok(None));
    }

    #[test]
    fn short_answers_are_errors() {
        assert!(Reader(&[0]).i32().is_err());
        assert!(Reader(&[0, 5, b'a']).string().is_err());
        assert!(Reader(&[0x7f, 0xff, 0xff, 0xff]).list(9, |reader| reader.i16()).is_err());
        assert_eq!(Reader(&[0, 0, 0, 1, 0, 7]).list(1, |reader| reader.i16()), Ok(vec![7]));
        assert!(Reader(&[0, 0, 0, 2, 0, 7, 0, 7]).list(1, |reader| reader.i16()).is_err());
        assert_eq!(Reader(&[0xff, 0xff]).string(), Ok(None));
    }
}
