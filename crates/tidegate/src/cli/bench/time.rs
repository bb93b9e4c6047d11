//! Times as they are written.

use std::{str::FromStr, time::Duration};

/// `10s`, `500ms`, `2m`, `1h`; a bare number is seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let end = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let seconds = match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err("expected a number followed by ms, s, m or h, such as 10s".into()),
        };
        let number: f64 =
            number.parse().map_err(|_| "expected a number followed by ms, s, m or h, such as 10s")?;
        let time = Duration::try_from_secs_f64(number * seconds);
        time.map(Time).map_err(|_| "a time must not be negative or endless".into())
    }
}
