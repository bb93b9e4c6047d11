//! Lua's patterns, matched as LuaJIT 2.1 matches them, but counting steps against the clock.
//!
//! LuaJIT's matcher is C that nothing can stop: `("a"):rep(3000):find(("a-"):rep(12) .. "b")` runs for years. This one
//! is its port, oddities included: a pattern ends at its first zero byte, items may nest 200 levels deep, and a fault of
//! the pattern is found only where matching comes to it. `tests` compares the two on generated pairs.

use super::clock;

mod class;
/// Steps that a look at a class takes beyond one: a long set is read from its start each time.
fn weight(p: usize, behind: usize) -> u32 {
    u32::try_from((behind - p) / 8).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

pub(super) const MAX_CAPTURES: usize = 32;

/// Levels of items within items.
const MAX_DEPTH: u32 = 200;

/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u32 = 4096;

/// Bytes that are passed over between two looks.
const BYTES_PER_LOOK: usize = 16 * STEPS_PER_LOOK as usize - 1;

/// Places that are tried before it pays to know which bytes a match can begin with.
const TRIES: usize = if cfg!(test) { 2 } else { 64 };

const ESCAPE: u8 = b'%';

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The pattern or its use is wrong; LuaJIT's message.
    Pattern(&'static str),
    /// The call's time is up.
    Expired,
}

use Fault::Pattern as Wrong;

/// A text that was captured, or is being: LuaJIT's texts have less than 2 GiB.
#[derive(Clone, Copy)]
struct Capture {
    start: u32,
    length: u32,
}

/// In place of a length: the capture is not closed yet, or is of a position.
const OPEN: u32 = u32::MAX;
const POSITION: u32 = u32::MAX - 1;

/// What a pattern found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
}

/// A value that a match gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a [u8]),
    /// Counted from 1.
    Position(usize),
}

/// A pattern at work on a subject. Holds nothing to be dropped: errors of Lua pass over it.
pub(super) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; MAX_CAPTURES],
    level: usize,
    depth: u32,
    fuel: u32,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(subject: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        let captures = [Capture { start: 0, length: 0 }; MAX_CAPTURES];
        Matcher { subject, pattern, captures, level: 0, depth: 0, fuel: STEPS_PER_LOOK }
    }

    /// The first match at `from` or behind it.
    pub(super) fn search(&mut self, from: usize) -> Result<Option<Found>, Fault> {
        let skip = self.first_byte();
        let mut firsts = None;
        for (tries, start) in (from..=self.subject.len()).enumerate() {
            if skip.is_some() || firsts.is_some() {
                return self.search_skipping(start, skip, firsts.as_ref());
            }
            if let Some(end) = self.at(start)? {
                return Ok(Some(Found { start, end }));
            }
            if tries == TRIES {
                firsts = self.first_bytes();
            }
        }
        Ok(None)
    }

    /// Tries only where a match can begin.
    fn search_skipping(
        &mut self,
        mut start: usize,
        skip: Option<u8>,
        firsts: Option<&[bool; 256]>,
    ) -> Result<Option<Found>, Fault> {
        loop {
            let Some(rest) = self.subject.get(start..) else { return Ok(None) };
            // In pieces, for the clock.
            let piece = rest.get(..BYTES_PER_LOOK).unwrap_or(rest);
            let next = match (skip, firsts) {
                (Some(first), _) => memchr::memchr(first, piece),
                (None, Some(firsts)) => piece.iter().position(|&byte| firsts[usize::from(byte)]),
                (None, None) => Some(0),
            };
            self.spend((next.unwrap_or(piece.len()) / 16) as u32)?;
            let Some(distance) = next else {
                if piece.len() == rest.len() {
                    return Ok(None);
                }
                start += piece.len();
                continue;
            };
            start += distance;
            if let Some(end) = self.at(start)? {
                return Ok(Some(Found { start, end }));
            }
            start += 1;
        }
    }

    /// A match that begins here: its end.
    pub(super) fn at(&mut self, start: usize) -> Result<Option<usize>, Fault> {
        self.level = 0;
        self.depth = 0;
        self.matched(start, 0)
    }

    /// The byte that every match begins with, where the pattern says so.
    fn first_byte(&self) -> Option<u8> {
        let first = *self.pattern.first()?;
        let special = matches!(first, b'(' | b')' | b'%' | b'.' | b'[' | b'$' | 0);
        (!special && !matches!(self.item(1), b'?' | b'*' | b'-')).then_some(first)
    }

    /// Values of the match; without captures the whole of it counts as one.
    pub(super) fn count(&self) -> usize {
        self.level.max(1)
    }

    pub(super) fn captured(&self) -> usize {
        self.level
    }

    pub(super) fn piece(&self, index: usize, found: Found) -> Result<Piece<'a>, Fault> {
        if index >= self.level {
            if index > 0 {
                return Err(Wrong("invalid capture index"));
            }
            return Ok(Piece::Text(self.whole(found)));
        }
        let Capture { start, length } = self.captures[index];
        let start = start as usize;
        match length {
            OPEN => Err(Wrong("unfinished capture")),
            POSITION => Ok(Piece::Position(start + 1)),
            length => Ok(Piece::Text(self.text(start, start + length as usize))),
        }
    }

    pub(super) fn whole(&self, found: Found) -> &'a [u8] {
        self.text(found.start, found.end)
    }

    fn text(&self, start: usize, end: usize) -> &'a [u8] {
        self.subject.get(start..end).unwrap_or_default()
    }

    /// A byte of the pattern; zero is its end.
    fn item(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// A byte of the subject; there is a zero behind its last.
    fn byte(&self, at: usize) -> u8 {
        self.subject.get(at).copied().unwrap_or(0)
    }

    fn step(&mut self) -> Result<(), Fault> {
        self.spend(1)
    }

    #[inline]
    fn spend(&mut self, steps: u32) -> Result<(), Fault> {
        match self.fuel.checked_sub(steps) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => self.check_time(),
        }
    }

    #[cold]
    fn check_time(&mut self) -> Result<(), Fault> {
        self.fuel = STEPS_PER_LOOK;
        if clock::expired() { Err(Fault::Expired) } else { Ok(()) }
    }

    /// The pattern from `p` on at the place `s` of the subject.
    fn matched(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Wrong("pattern too complex"));
        }
        let end = loop {
            self.step()?;
            match self.item(p) {
                b'(' if self.item(p + 1) == b')' => {
                    break self.open(POSITION, s, p + 2)?;
                }
                b'(' => break self.open(OPEN, s, p + 1)?,
                b')' => break self.close(s, p + 1)?,
                0 => break Some(s),
                b'$' if self.item(p + 1) == 0 => break (s == self.subject.len()).then_some(s),
                ESCAPE if matches!(self.item(p + 1), b'b' | b'f' | b'0'..=b'9') => {
                    match self.special(s, p)? {
                        Some((next, behind)) => (s, p) = (next, behind),
                        None => break None,
                    }
                }
                _ => match self.single(s, p)? {
                    Next::Go(next, behind) => (s, p) = (next, behind),
                    Next::End(end) => break end,
                },
            }
        };
        self.depth -= 1;
        Ok(end)
    }

    /// One character class with what may follow it.
    fn single(&mut self, s: usize, p: usize) -> Result<Next, Fault> {
        let behind = self.class_end(p)?;
        self.spend(weight(p, behind))?;
        let fits = match self.subject.get(s) {
            Some(&byte) => self.fits(byte, &self.class(p, behind)),
            None => false,
        };
        Ok(match self.item(behind) {
            b'?' => {
                if fits && let Some(end) = self.matched(s + 1, behind + 1)? {
                    return Ok(Next::End(Some(end)));
                }
                Next::Go(s, behind + 1)
            }
            b'*' => Next::End(self.most(s, p, behind)?),
            b'+' if fits => Next::End(self.most(s + 1, p, behind)?),
            b'+' => Next::End(None),
            b'-' => Next::End(self.least(s, p, behind)?),
            _ if fits => Next::Go(s + 1, behind),
            _ => Next::End(None),
        })
    }

    /// `%b`, `%f` and `%1`: where matching continues.
    fn special(&mut self, s: usize, p: usize) -> Result<Option<(usize, usize)>, Fault> {
        match self.item(p + 1) {
            b'b' => Ok(self.balance(s, p + 2)?.map(|end| (end, p + 4))),
            b'f' => {
                let p = p + 2;
                if self.item(p) != b'[' {
                    return Err(Wrong("missing '[' after '%f' in pattern"));
                }
                let behind = self.class_end(p)?;
                self.spend(weight(p, behind).saturating_mul(2))?;
                let before = if s == 0 { 0 } else { self.byte(s - 1) };
                let border = !self.in_set(before, p, behind - 1) && self.in_set(self.byte(s), p, behind - 1);
                Ok(border.then_some((s, behind)))
            }
            digit => {
                let Some((start, length)) = self.earlier(digit)? else { return Ok(None) };
                self.spend((length / 16).min(STEPS_PER_LOOK as usize) as u32)?;
                let same = s + length <= self.subject.len()
                    && self.text(start, start + length) == self.text(s, s + length);
                Ok(same.then_some((s + length, p + 2)))
            }
        }
    }

    /// The capture that `%1` names. A position never equals a text: LuaJIT compares with a length past all others.
    fn earlier(&self, digit: u8) -> Result<Option<(usize, usize)>, Fault> {
        let index = usize::from(digit).checked_sub(usize::from(b'1')).filter(|&index| index < self.level);
        match index.map(|index| self.captures[index]) {
            None | Some(Capture { length: OPEN, .. }) => Err(Wrong("invalid capture index")),
            Some(Capture { length: POSITION, .. }) => Ok(None),
            Some(Capture { start, length }) => Ok(Some((start as usize, length as usize))),
        }
    }

    fn balance(&mut self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        let (open, close) = (self.item(p), self.item(p + 1));
        if open == 0 || close == 0 {
            return Err(Wrong("unbalanced pattern"));
        }
        if self.byte(s) != open {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.byte(at);
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// As many as there are, then fewer.
    fn most(&mut self, s: usize, p: usize, behind: usize) -> Result<Option<usize>, Fault> {
        let class = self.class(p, behind);
        let weight = 1 + weight(p, behind);
        // In pieces, for the clock.
        let longest = (STEPS_PER_LOOK / weight).max(1) as usize;
        let mut count = 0;
        loop {
            let rest = self.subject.get(s + count..).unwrap_or_default();
            let piece = rest.get(..longest).unwrap_or(rest);
            let run = piece.iter().take_while(|&&byte| self.fits(byte, &class)).count();
            count += run;
            self.spend((run as u32).saturating_mul(weight))?;
            if run < longest {
                break;
            }
        }
        loop {
            if let Some(end) = self.matched(s + count, behind + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// As few as possible, then more.
    fn least(&mut self, mut s: usize, p: usize, behind: usize) -> Result<Option<usize>, Fault> {
        let class = self.class(p, behind);
        let weight = weight(p, behind);
        loop {
            if let Some(end) = self.matched(s, behind + 1)? {
                return Ok(Some(end));
            }
            self.spend(weight)?;
            match self.subject.get(s) {
                Some(&byte) if self.fits(byte, &class) => s += 1,
                _ => return Ok(None),
            }
        }
    }

    fn open(&mut self, length: u32, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        let Some(place) = self.captures.get_mut(self.level) else { return Err(Wrong("too many captures")) };
        *place = Capture { start: s as u32, length };
        self.level += 1;
        let end = self.matched(s, p)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        let Some(index) = self.captures[..self.level].iter().rposition(|capture| capture.length == OPEN)
        else {
            return Err(Wrong("invalid pattern capture"));
        };
        self.captures[index].length = s as u32 - self.captures[index].start;
        let end = self.matched(s, p)?;
        if end.is_none() {
            self.captures[index].length = OPEN;
        }
        Ok(end)
    }
}

/// How matching continues behind an item.
enum Next {
    Go(usize, usize),
    End(Option<usize>),
}

/// Whether `find` has to take the text for a pattern.
pub(super) fn is_pattern(text: &[u8]) -> bool {
    if text.len() > 64 {
        const SPECIAL: [[u8; 3]; 4] = [*b"^$*", *b"+?.", *b"([%", *b"---"];
        return SPECIAL.iter().any(|[a, b, c]| memchr::memchr3(*a, *b, *c, text).is_some());
    }
    text.iter()
        .any(|byte| matches!(byte, b'^' | b'$' | b'*' | b'+' | b'?' | b'.' | b'(' | b'[' | b'%' | b'-'))
}
