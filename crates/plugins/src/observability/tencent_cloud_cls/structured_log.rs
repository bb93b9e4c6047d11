//! Logs as the service takes them: texts by name, in the protobuf messages of its documentation (`LogGroupList`).

use serde_json::{Map, Value};
use tidegate_clients::batch::Weigh;

use crate::common::{number, protobuf};

/// What is longer is cut.
const LONGEST_VALUE: usize = 1 << 20;
/// Of one log, and of all in a request.
const MOST_BYTES: usize = 5 << 20;
/// What a log without contents counts.
const EMPTY: usize = 4;

pub(super) struct Log {
    /// Milliseconds since 1970.
    time: i64,
    contents: Vec<(String, String)>,
}

impl Weigh for Log {
    fn held(&self) -> usize {
        self.contents.held()
    }

    /// Lengths and tags are a few bytes each.
    fn encoded(&self) -> usize {
        self.contents.iter().map(|(name, value)| 24 + name.len() + value.len()).sum()
    }
}

impl Log {
    pub(super) fn new(time: i64, entry: Map<String, Value>) -> Log {
        Log { time, contents: entry.into_iter().map(|(name, value)| (name, text(value))).collect() }
    }

    fn size(&self) -> usize {
        EMPTY + self.contents.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.size() > MOST_BYTES
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Of negative numbers protobuf has the bits.
        protobuf::number(1, self.time as u64, &mut out);
        for (name, value) in &self.contents {
            let mut content = Vec::new();
            protobuf::text(1, name, &mut content);
            protobuf::text(2, value, &mut content);
            protobuf::message(2, &content, &mut out);
        }
        out
    }
}

fn text(value: Value) -> String {
    let mut text = match value {
        Value::String(text) => text,
        Value::Number(value) => match value.as_f64() {
            Some(float) if value.is_f64() => number::lua(float),
            _ => value.to_string(),
        },
        value => value.to_string(),
    };
    let end = text.floor_char_boundary(LONGEST_VALUE);
    text.truncate(end);
    text
}

/// The first logs that fit in one request, at least one, and how many they are. `source`: the address of this machine.
pub(super) fn group_list(logs: &[Log], source: &str) -> (usize, Vec<u8>) {
    let mut group = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    for log in logs {
        bytes += log.size();
        if count > 0 && bytes > MOST_BYTES {
            break;
        }
        protobuf::message(1, &log.encode(), &mut group);
        count += 1;
    }
    if !source.is_empty() {
        protobuf::text(4, source, &mut group);
    }
    let mut list = Vec::new();
    protobuf::message(1, &group, &mut list);
    (count, list)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(entry: Value) -> Log {
        Log::new(5, entry.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn values_are_texts() {
        let log = log(json!({"a": "b", "c": 1, "d": 0.5, "e": {"f": 1}, "g": true}));
        let values: Vec<&str> = log.contents.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["b", "1", "0.5", r#"{"f":1}"#, "true"]);
    }

    #[test]
    fn bytes_of_a_log() {
        let (count, bytes) = group_list(&[log(json!({"a": "b"}))], "ip");
        let content = [0x0a, 1, b'a', 0x12, 1, b'b'];
        let log = [&[0x08, 5, 0x12, 6], content.as_slice()].concat();
        let group = [&[0x0a, 10], log.as_slice(), &[0x22, 2, b'i', b'p']].concat();
        assert_eq!((count, bytes), (1, [&[0x0a, 16], group.as_slice()].concat()));
    }

    #[test]
    fn long_logs_are_cut_and_parted() {
        let long = |letters: usize| log(json!({"a": "é".repeat(letters)}));
        assert_eq!(long(LONGEST_VALUE).size(), EMPTY + 1 + LONGEST_VALUE);
        let logs: Vec<Log> = (0..6).map(|_| long(LONGEST_VALUE)).collect();
        assert_eq!((group_list(&logs, "").0, group_list(&logs[4..], "").0), (4, 2));
        let many: Map<String, Value> =
            (0..6).map(|at| (at.to_string(), "x".repeat(LONGEST_VALUE).into())).collect();
        assert!(Log::new(0, many).is_too_long());
    }
}
