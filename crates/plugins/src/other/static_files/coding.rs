//! `Accept-Encoding` (RFC 9110 section 12.5.3): which of the files beside a file the client takes.

use serde::Deserialize;

/// A content coding that a file beside the asked one may have.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Coding {
    Br,
    Zstd,
    Gzip,
}

impl Coding {
    pub(super) fn name(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// What is appended to the name of the file.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Coding::Br => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    fn is(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes())
            || (self == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// The place of the coding to send, of those that exist, best first; `None`: the file itself.
pub(super) fn choose<'a>(
    accepted: impl Iterator<Item = &'a [u8]> + Clone,
    existing: impl Iterator<Item = Coding>,
) -> Option<usize> {
    // The file itself, where `identity` is not named, counts less than any coding that is.
    let plain = weight_of(accepted.clone(), |name| name.eq_ignore_ascii_case(b"identity")).unwrap_or(0);
    let mut best: Option<(usize, u16)> = None;
    for (at, coding) in existing.enumerate() {
        let named = weight_of(accepted.clone(), |name| coding.is(name));
        let weight = named.or_else(|| weight_of(accepted.clone(), |name| name == b"*")).unwrap_or(0);
        if weight > 0 && weight >= plain && best.is_none_or(|(_, other)| weight > other) {
            best = Some((at, weight));
        }
    }
    best.map(|(at, _)| at)
}

/// The weight in thousandths of the first coding that fits.
fn weight_of<'a>(lines: impl Iterator<Item = &'a [u8]>, fits: impl Fn(&[u8]) -> bool) -> Option<u16> {
    lines.flat_map(|line| line.split(|&byte| byte == b',')).find_map(|item| {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        if !fits(parts.next()?) {
            return None;
        }
        let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
        Some(weight.map_or(1000, parse_weight))
    })
}

/// `0`, `0.5`, `1.000`; what is not a weight counts as nothing.
fn parse_weight(text: &[u8]) -> u16 {
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default()),
        None => (text, &b""[..]),
    };
    let digits = fraction.iter().all(u8::is_ascii_digit) && fraction.len() <= 3;
    match (whole, digits) {
        (b"1", true) => 1000,
        (b"0", true) => {
            let value = fraction.iter().fold(0u16, |value, digit| value * 10 + u16::from(digit - b'0'));
            value * 10u16.pow(3 - fraction.len() as u32)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_decides_then_the_order_of_the_configuration() {
        let check = |accepted: &[&str], expected: Option<Coding>| {
            let existing = [Coding::Br, Coding::Zstd, Coding::Gzip];
            let lines = accepted.iter().map(|line| line.as_bytes());
            let chosen = choose(lines, existing.into_iter()).and_then(|at| existing.get(at).copied());
            assert_eq!(chosen, expected, "{accepted:?}");
        };
        check(&[], None);
        check(&[""], None);
        check(&["gzip"], Some(Coding::Gzip));
        check(&["x-gzip"], Some(Coding::Gzip));
        check(&["gzip, br"], Some(Coding::Br));
        check(&["gzip;q=1.0, br;q=0.5"], Some(Coding::Gzip));
        check(&["gzip", "br;q=0"], Some(Coding::Gzip));
        check(&["br;q=0, *;q=0.1"], Some(Coding::Zstd));
        check(&["*"], Some(Coding::Br));
        check(&["*;q=0"], None);
        check(&["identity"], None);
        check(&["identity;q=0.5, gzip;q=0.2"], None);
        check(&["identity;q=0.5, gzip ; q=0.8"], Some(Coding::Gzip));
        check(&["GZIP; Q=0.001"], Some(Coding::Gzip));
        check(&["gzip;q=0.0001"], None);
        check(&["gzip;q=2"], None);
        check(&["deflate"], None);
    }
}
