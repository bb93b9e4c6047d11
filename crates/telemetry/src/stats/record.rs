//! A [`Period`] as bytes, and back.
//!
//! Names are written once in a file; further records of it have their numbers, in order, as differences.

use std::collections::HashMap;

use super::{
    count::{Count, Share, Shares},
    level::Period,
    wire::{Reader, put, put_text},
};

/// Routes that a record has apart; those with fewer requests are counted together.
pub(super) const MOST_ROUTES: usize = 1_000;

/// The same of consumers.
pub(super) const MOST_CONSUMERS: usize = 200;

/// The names of a file, by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, usize>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    fn push(&mut self, name: &str) {
        self.numbers.insert(name.into(), self.texts.len());
        self.texts.push(name.into());
    }

    /// Forgets those that a record brought that could not be written.
    pub(super) fn truncate(&mut self, count: usize) {
        for name in self.texts.drain(count.min(self.texts.len())..) {
            self.numbers.remove(&name);
        }
    }
}

pub(super) fn write(period: &Period, names: &mut Names) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 << 10);
    put(&mut out, period.start);
    period.count.write(&mut out);
    write_shares(&period.routes, MOST_ROUTES, names, &mut out);
    write_shares(&period.consumers, MOST_CONSUMERS, names, &mut out);
    out
}

fn write_shares(shares: &Shares, most: usize, names: &mut Names, out: &mut Vec<u8>) {
    let (top, others) = shares.top(most);
    let mut numbered: Vec<(Option<usize>, &str, Share)> =
        top.into_iter().map(|(name, share)| (names.numbers.get(name).copied(), name, share)).collect();
    // New names come last, with a difference of 0.
    numbered.sort_unstable_by_key(|(number, name, _)| (number.unwrap_or(usize::MAX), *name));
    put(out, numbered.len() as u64);
    let mut next = 0;
    for (number, name, share) in numbered {
        match number {
            Some(number) => {
                put(out, (number - next) as u64 + 1);
                next = number + 1;
            }
            None => {
                put(out, 0);
                put_text(out, name);
                names.push(name);
            }
        }
        share.write(out);
    }
    others.write(out);
}

/// `None`: it is none. Its names are those of the file so far.
pub(super) fn read(bytes: &[u8], names: &mut Names) -> Option<Period> {
    let mut reader = Reader(bytes);
    let period = Period {
        start: reader.number()?,
        count: Count::read(&mut reader)?,
        routes: read_shares(&mut reader, MOST_ROUTES, names)?,
        consumers: read_shares(&mut reader, MOST_CONSUMERS, names)?,
    };
    reader.0.is_empty().then_some(period)
}

fn read_shares(reader: &mut Reader<'_>, most: usize, names: &mut Names) -> Option<Shares> {
    let count = usize::try_from(reader.number()?).ok().filter(|count| *count <= most)?;
    let mut shares = Shares::default();
    let mut next = 0;
    for _ in 0..count {
        let number = match usize::try_from(reader.number()?).ok()? {
            0 => {
                names.push(reader.text()?);
                names.len() - 1
            }
            difference => {
                let number = next + difference - 1;
                next = number + 1;
                number
            }
        };
        shares.named.insert(names.texts.get(number)?.clone(), Share::read(reader)?);
    }
    shares.others = Share::read(reader)?;
    Some(shares)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// With this many routes, each with other figures.
    pub(in crate::stats) fn busy(start: u64, routes: usize) -> Period {
        let mut period = Period::at(start);
        for route in 0..routes {
            let requests = 50 + (route as u64 * 37 + start) % 900;
            let share = Share {
                requests,
                client_errors: requests % 7,
                server_errors: 0,
                latency_100us: requests * 153,
            };
            period.routes.add(&format!("00000000000000{route:06}"), share);
            period.count.requests += requests;
        }
        period
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let (mut writing, mut reading) = (Names::default(), Names::default());
        for routes in [0, 3, 2, 5, MOST_ROUTES] {
            let period = busy(60, routes);
            let bytes = write(&period, &mut writing);
            assert_eq!(read(&bytes, &mut reading).as_ref(), Some(&period), "{routes}");
            assert!(read(&bytes[..bytes.len() - 1], &mut Names::default()).is_none());
        }
        let many = busy(60, 5 * MOST_ROUTES);
        let read = read(&write(&many, &mut writing), &mut reading).expect("a record");
        let named: u64 = read.routes.named.values().map(|share| share.requests).sum();
        assert_eq!(read.routes.named.len(), MOST_ROUTES);
        assert_eq!(named + read.routes.others.requests, many.count.requests, "nothing is lost");
    }
}
