//! Limits the lines that one place in the code writes, although each may differ: with a client's address or path in
//! them, a client could fill a disk.

use std::collections::HashMap;
use std::io::Write;
use std::panic::Location;

use super::level::Level;

/// Lines of one place a second, on one worker.
const MOST_LINES: u32 = 100;
/// The bytes that they may take; the line that exceeds the limit is still written.
const MOST_BYTES: usize = 32 * 1024;
/// How much of the last written line is kept, as an example of what was left out.
const EXAMPLE_BYTES: usize = 256;

type Id = (&'static str, u32, u32);

#[derive(Default)]
pub(super) struct Places(HashMap<Id, CallSite>);

struct CallSite {
    level: Level,
    lines: u32,
    bytes: usize,
    left_out: u64,
    example: Vec<u8>,
}

fn id(place: &'static Location<'static>) -> Id {
    (place.file(), place.line(), place.column())
}

impl Places {
    /// Whether the line that is to come is left out.
    pub(super) fn is_full(&mut self, place: &'static Location<'static>) -> bool {
        let Some(place) = self.0.get_mut(&id(place)) else { return false };
        let is_full = place.lines >= MOST_LINES || place.bytes >= MOST_BYTES;
        place.left_out += u64::from(is_full);
        is_full
    }

    pub(super) fn wrote(
        &mut self,
        place: &'static Location<'static>,
        level: Level,
        text: &[u8],
        bytes: usize,
    ) {
        let empty = || CallSite { level, lines: 0, bytes: 0, left_out: 0, example: Vec::new() };
        let place = self.0.entry(id(place)).or_insert_with(empty);
        place.lines += 1;
        place.bytes += bytes;
        if place.lines >= MOST_LINES || place.bytes >= MOST_BYTES {
            place.level = level;
            place.example = text.get(..EXAMPLE_BYTES).unwrap_or(text).to_vec();
        }
    }

    /// Forgets the last second. Returns the lines that report what was left out in it.
    pub(crate) fn start_second(&mut self) -> Vec<(Level, Vec<u8>)> {
        let places = self.0.drain().map(|(_, place)| place).filter(|place| place.left_out > 0);
        let told = places.map(|place| {
            let mut text = place.example;
            let _ = write!(text, " ({} similar lines were omitted)", place.left_out);
            (place.level, text)
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_place_are_bounded_in_number_and_bytes() {
        let mut places = Places::default();
        let (here, there) = (Location::caller(), place());
        let mut written = 0;
        for number in 0..1000 {
            if !places.is_full(here) {
                places.wrote(here, Level::Error, format!("line {number}").as_bytes(), 50);
                written += 1;
            }
        }
        assert_eq!(written, 100);
        assert!(!places.is_full(there), "another place has its own");
        places.wrote(there, Level::Warn, &[b'a'; 1000], MOST_BYTES);
        assert!(places.is_full(there));
        let mut told = places.start_second();
        told.sort_by_key(|(level, _)| *level);
        let [(_, first), (level, second)] = told.try_into().expect("two lines");
        assert_eq!(first, b"line 99 (900 similar lines were omitted)");
        assert!(second.ends_with(b"aa (1 similar lines were omitted)") && level == Level::Warn);
        assert!(!places.is_full(here) && places.start_second().is_empty());
    }

    fn place() -> &'static Location<'static> {
        Location::caller()
    }
}
