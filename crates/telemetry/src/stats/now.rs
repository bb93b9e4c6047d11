//! What is not in a file of minutes yet: the last ten minutes by seconds, and the periods that are not over.

use super::{
    count::Count,
    level::{Level, Period},
    record::{self, Names},
    wire::{Reader, put},
};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Now {
    pub seconds: Vec<(u64, Count)>,
    /// The minute, and the ten minutes.
    pub open: [Period; 2],
}

pub(super) fn write(seconds: &Level, open: [&Period; 2]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 << 10);
    put(&mut out, seconds.all().len() as u64);
    for (start, count) in seconds.all() {
        put(&mut out, *start);
        put(&mut out, u64::from(!count.is_empty()));
        if !count.is_empty() {
            count.write(&mut out);
        }
    }
    for period in open {
        let record = record::write(period, &mut Names::default());
        put(&mut out, record.len() as u64);
        out.extend_from_slice(&record);
    }
    out
}

impl Now {
    /// `None`: it is none.
    pub(super) fn read(payload: &[u8]) -> Option<Now> {
        let mut reader = Reader(payload);
        let mut now = Now::default();
        for _ in 0..reader.number()? {
            let start = reader.number()?;
            let count = if reader.number()? == 0 { Count::default() } else { Count::read(&mut reader)? };
            now.seconds.push((start, count));
        }
        for period in &mut now.open {
            let length = usize::try_from(reader.number()?).ok()?;
            *period = record::read(reader.bytes(length)?, &mut Names::default())?;
        }
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let mut seconds = Level::new(1, 600);
        for second in 0..5 {
            seconds.add(second, &Count { requests: second, latency_us: 7, ..Count::default() });
        }
        let open = [record::tests::busy(0, 7), record::tests::busy(0, 9)];
        let bytes = write(&seconds, [&open[0], &open[1]]);
        let now = Now::read(&bytes).expect("read");
        assert_eq!(now.open, open);
        assert_eq!(now.seconds.get(3).map(|(_, count)| count.requests), Some(3));
        assert!(Now::read(&bytes[..bytes.len() / 2]).is_none());
    }
}
