//! Commands that wait for their answers, which come in their order.

use std::{collections::VecDeque, time::Instant};

use super::requests::Command;

/// Of more only their number is known: clients may send without end, and some commands have no answer.
const MOST_CALLS: usize = 1024;

enum Open {
    Call(Command, Instant),
    /// So many in a row.
    Unknown(u64),
}

#[derive(Default)]
pub(super) struct Calls(VecDeque<Open>);

impl Calls {
    pub(super) fn begin(&mut self, command: Command) {
        if self.0.len() < MOST_CALLS {
            return self.0.push_back(Open::Call(command, Instant::now()));
        }
        match self.0.back_mut() {
            Some(Open::Unknown(count)) => *count += 1,
            _ => self.0.push_back(Open::Unknown(1)),
        }
    }

    pub(super) fn next_name(&self) -> Option<&[u8]> {
        match self.0.front()? {
            Open::Call(command, _) => Some(&command.name),
            Open::Unknown(_) => None,
        }
    }

    /// Ends the oldest one. The outer `None`: none is open; the inner one: nothing is known of it.
    pub(super) fn end_next(&mut self) -> Option<Option<(Command, Instant)>> {
        if let Some(Open::Unknown(count @ 2..)) = self.0.front_mut() {
            *count -= 1;
            return Some(None);
        }
        Some(match self.0.pop_front()? {
            Open::Call(command, began) => Some((command, began)),
            Open::Unknown(_) => None,
        })
    }
}
