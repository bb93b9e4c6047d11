//! Commands, however they are cut: `*2\r\n$3\r\nGET\r\n$1\r\nx\r\n`.

use std::{sync::Arc, time::Duration};

use super::{commands::Keys, faults::Faults};

/// The longest line with a number.
const LINE_BYTES: usize = 128;

/// Of an argument in the log.
const ARGUMENT_BYTES: usize = 128;

/// Of a command in the log.
const LOGGED_BYTES: usize = 4096;

/// Of a command's name; no command is that long.
const NAME_BYTES: usize = 64;

/// A command.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Command {
    /// In lower case.
    pub name: Box<[u8]>,
    /// `$redis_cmd_line`; empty where nothing logs it.
    pub line: Vec<u8>,
    /// Before it may go on.
    pub pause: Duration,
}

enum State {
    /// How many texts the command has.
    Count,
    /// How long the next text is.
    Length,
    /// Bytes of the text, with the end of its line.
    Text { length: u64, left: u64 },
}

pub(super) struct Requests {
    faults: Arc<Faults>,
    logs: bool,
    state: State,
    number: Vec<u8>,
    /// Of the present command: texts, and those that are complete.
    count: u64,
    at: u64,
    /// The beginning of the present text.
    text: Vec<u8>,
    keys: Keys,
    found: Option<Duration>,
    command: Command,
}

impl Requests {
    pub(super) fn new(faults: Arc<Faults>, logs: bool) -> Requests {
        Requests {
            faults,
            logs,
            state: State::Count,
            number: Vec::new(),
            count: 0,
            at: 0,
            text: Vec::new(),
            keys: Keys::None,
            found: None,
            command: Command::default(),
        }
    }

    /// Reads to the end of a command, or of the bytes; returns how many of them.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<(usize, Option<Command>), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.state {
                State::Count => {
                    let Some(count) = self.read_number(&mut rest, b'*')? else { break };
                    if count < 1 {
                        return Err(format!("invalid argument number: {count}"));
                    }
                    (self.count, self.at, self.state) = (count.unsigned_abs(), 0, State::Length);
                }
                State::Length => {
                    let Some(length) = self.read_number(&mut rest, b'$')? else { break };
                    let length =
                        u64::try_from(length).map_err(|_| format!("invalid bulk length: {length}"))?;
                    self.state = State::Text { length, left: length.saturating_add(2) };
                }
                State::Text { length, left } => {
                    let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let (text, others) = rest.split_at(taken);
                    // Without the end of the line.
                    let of_text = usize::try_from(left.saturating_sub(2)).unwrap_or(usize::MAX).min(taken);
                    self.keep(text.get(..of_text).unwrap_or_default());
                    let left = left - taken as u64;
                    (self.state, rest) = (State::Text { length, left }, others);
                    if left == 0 {
                        self.end_text(length);
                        if self.at == self.count {
                            self.state = State::Count;
                            return Ok((bytes.len() - rest.len(), Some(self.end_command())));
                        }
                        self.state = State::Length;
                    }
                }
            }
        }
        Ok((bytes.len(), None))
    }

    /// A line with a number behind its sign; `None`: it is not complete.
    fn read_number(&mut self, rest: &mut &[u8], sign: u8) -> Result<Option<i64>, String> {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, others) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        *rest = others;
        self.number.extend_from_slice(line.get(..LINE_BYTES).unwrap_or(line));
        if self.number.len() >= LINE_BYTES {
            return Err("line too long".to_owned());
        }
        if self.number.first().is_some_and(|first| *first != sign) {
            let shown = String::from_utf8_lossy(&self.number);
            return Err(format!("unknown prefix: \"{}\"", shown.chars().next().unwrap_or_default()));
        }
        if end.is_none() {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.number);
        let text = line.strip_suffix(b"\r\n").and_then(|line| line.get(1..));
        let digits = text.map(|text| text.strip_prefix(b"-").unwrap_or(text));
        let is_number = digits.is_some_and(|text| !text.is_empty() && text.iter().all(u8::is_ascii_digit));
        let number = text.filter(|_| is_number).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        number.map(Some).ok_or_else(|| {
            let shown = String::from_utf8_lossy(text.unwrap_or(&line)).trim_end().to_owned();
            format!("invalid len string: \"{shown}\"")
        })
    }

    fn keep(&mut self, text: &[u8]) {
        // One byte more than the longest key tells a longer one.
        let most = NAME_BYTES.max(ARGUMENT_BYTES).max(self.faults.longest + 1);
        let room = most.saturating_sub(self.text.len()).min(text.len());
        self.text.extend_from_slice(text.get(..room).unwrap_or_default());
    }

    fn end_text(&mut self, length: u64) {
        let mut text = std::mem::take(&mut self.text);
        if self.at == 0 {
            text.make_ascii_lowercase();
            text.truncate(NAME_BYTES);
            self.keys = Keys::of(&text);
            self.command.name = text.as_slice().into();
        } else if self.found.is_none() && self.keys.has(self.at, self.count - 1) {
            let of_command = self.faults.of(&self.command.name);
            self.found = of_command.and_then(|of_command| of_command.of_key(&text));
        }
        if self.logs {
            self.log(&text, length);
        }
        self.at += 1;
        text.clear();
        // Its memory is for the next one.
        self.text = text;
    }

    fn log(&mut self, text: &[u8], length: u64) {
        let line = &mut self.command.line;
        if line.len() >= LOGGED_BYTES {
            return;
        }
        if self.at > 0 {
            line.push(b' ');
        }
        line.extend_from_slice(text.get(..ARGUMENT_BYTES).unwrap_or(text));
        if length > ARGUMENT_BYTES as u64 {
            line.extend_from_slice(format!("...({length} bytes)").as_bytes());
        }
        if line.len() >= LOGGED_BYTES {
            line.extend_from_slice(b"...");
        }
    }

    fn end_command(&mut self) -> Command {
        let any = self.faults.of(&self.command.name).map(super::faults::OfCommand::any);
        let pause = self.found.take().or(any).unwrap_or_default();
        Command { pause, ..std::mem::take(&mut self.command) }
    }
}
