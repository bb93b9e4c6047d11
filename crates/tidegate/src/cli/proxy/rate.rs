//! `100/s`

/// So many requests in a window of so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub count: u64,
    pub window: u64,
}

pub(super) fn parse(text: &str) -> Result<Rate, String> {
    let parsed = || {
        let (count, unit) = text.split_once('/')?;
        let window = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return None,
        };
        // Beyond what the plugin counts exactly.
        let count = count.parse().ok().filter(|count| (1..=1_000_000_000).contains(count))?;
        Some(Rate { count, window })
    };
    parsed().ok_or_else(|| {
        "give a number of requests, at most 1000000000, and a unit, such as 100/s, 1000/m or 5000/h"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit() {
        for (text, expected) in [
            ("100/s", Some((100, 1))),
            ("1000/m", Some((1000, 60))),
            ("5/h", Some((5, 3600))),
            ("0/s", None),
            ("-1/s", None),
            ("100", None),
            ("100/d", None),
            ("1.5/s", None),
            ("/s", None),
            ("99999999999999999999/s", None),
        ] {
            assert_eq!(parse(text).ok().map(|rate| (rate.count, rate.window)), expected, "{text}");
        }
    }
}
