//! `profile.proto` of github.com/google/pprof, compressed.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::Arc,
    time::UNIX_EPOCH,
};

use flate2::{Compression, write::GzEncoder};
use prost::Message;

use crate::profile::{Frame, Profile};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Document {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ValueType {
    #[prost(int64, tag = "1")]
    pub kind: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub text: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub address: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
}

pub(crate) fn write(profile: &Profile) -> io::Result<Vec<u8>> {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(&document(profile).encode_to_vec())?;
    compressed.finish()
}

pub(crate) fn document(profile: &Profile) -> Document {
    let mut tables = Tables::default();
    // The first string is the empty one.
    tables.text("");
    let samples = ValueType { kind: tables.text("samples"), unit: tables.text("count") };
    let time = ValueType { kind: tables.text("cpu"), unit: tables.text("nanoseconds") };
    let (thread, period) = (tables.text("thread"), 1_000_000_000 / profile.frequency.max(1));
    let sample = profile.stacks.iter().map(|stack| Sample {
        location_id: stack.frames.iter().map(|frame| tables.location(frame)).collect(),
        value: vec![stack.samples as i64, stack.samples.saturating_mul(period) as i64],
        label: vec![Label { key: thread, text: tables.text(&stack.thread) }],
    });
    let sample = sample.collect();
    let comment = match profile.lost {
        0 => Vec::new(),
        lost => vec![tables.text(&format!("{lost} samples were lost"))],
    };
    let since = profile.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Document {
        sample_type: vec![samples, time],
        sample,
        mapping: tables.mappings,
        location: tables.locations,
        function: tables.functions,
        string_table: tables.texts,
        time_nanos: i64::try_from(since.as_nanos()).unwrap_or_default(),
        duration_nanos: i64::try_from(profile.length.as_nanos()).unwrap_or_default(),
        period_type: Some(time),
        period: period as i64,
        comment,
    }
}

/// What samples refer to by number. Numbers of all but texts begin with 1.
#[derive(Default)]
struct Tables {
    texts: Vec<String>,
    known_texts: HashMap<String, i64>,
    mappings: Vec<Mapping>,
    /// By where they begin.
    known_mappings: HashMap<u64, u64>,
    locations: Vec<Location>,
    known_locations: HashMap<u64, u64>,
    functions: Vec<Function>,
    known_functions: HashMap<String, u64>,
}

impl Tables {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(known) = self.known_texts.get(text) {
            return *known;
        }
        let number = self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.known_texts.insert(text.to_owned(), number);
        number
    }

    fn location(&mut self, frame: &Arc<Frame>) -> u64 {
        if let Some(known) = self.known_locations.get(&frame.address) {
            return *known;
        }
        let mapping_id = self.mapping(frame);
        let line = vec![Line { function_id: self.function(frame.label()) }];
        let id = self.locations.len() as u64 + 1;
        self.locations.push(Location { id, mapping_id, address: frame.address, line });
        self.known_locations.insert(frame.address, id);
        id
    }

    /// 0: none.
    fn mapping(&mut self, frame: &Frame) -> u64 {
        let Some(module) = &frame.module else { return 0 };
        if let Some(known) = self.known_mappings.get(&module.start) {
            return *known;
        }
        let id = self.mappings.len() as u64 + 1;
        let (filename, build_id) = (self.text(&module.path), self.text(&module.build_id));
        self.mappings.push(Mapping {
            id,
            memory_start: module.start,
            memory_limit: module.end,
            file_offset: module.offset,
            filename,
            build_id,
            has_functions: true,
        });
        self.known_mappings.insert(module.start, id);
        id
    }

    fn function(&mut self, name: String) -> u64 {
        if let Some(known) = self.known_functions.get(&name) {
            return *known;
        }
        let id = self.functions.len() as u64 + 1;
        let function = Function { id, name: self.text(&name) };
        self.functions.push(function);
        self.known_functions.insert(name, id);
        id
    }
}
