//! C's `strftime`, as far as names of indices need it. A leading `!` (UTC) is accepted; times are in UTC anyway.

use time::OffsetDateTime;

/// An unknown escape stays as it is.
pub fn format(text: &str, at: OffsetDateTime) -> String {
    let mut out = String::new();
    let mut chars = text.strip_prefix('!').unwrap_or(text).chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        match chars.next() {
            Some(escape) => out.push_str(&value(escape, at)),
            None => out.push('%'),
        }
    }
    out
}

fn value(escape: char, at: OffsetDateTime) -> String {
    let hour12 = (at.hour() + 11) % 12 + 1;
    match escape {
        'Y' => at.year().to_string(),
        'y' => format!("{:02}", at.year().rem_euclid(100)),
        'm' => format!("{:02}", u8::from(at.month())),
        'd' => format!("{:02}", at.day()),
        'e' => format!("{:2}", at.day()),
        'H' => format!("{:02}", at.hour()),
        'I' => format!("{hour12:02}"),
        'M' => format!("{:02}", at.minute()),
        'S' => format!("{:02}", at.second()),
        'p' => if at.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        'j' => format!("{:03}", at.ordinal()),
        'W' => format!("{:02}", at.monday_based_week()),
        'U' => format!("{:02}", at.sunday_based_week()),
        'V' => format!("{:02}", at.iso_week()),
        'u' => at.weekday().number_from_monday().to_string(),
        'w' => at.weekday().number_days_from_sunday().to_string(),
        'A' => at.weekday().to_string(),
        'a' => at.weekday().to_string().chars().take(3).collect(),
        'B' => at.month().to_string(),
        'b' | 'h' => at.month().to_string().chars().take(3).collect(),
        'F' => format("%Y-%m-%d", at),
        'T' => format("%H:%M:%S", at),
        'D' => format("%m/%d/%y", at),
        's' => at.unix_timestamp().to_string(),
        'z' => "+0000".to_owned(),
        'Z' => "UTC".to_owned(),
        '%' => "%".to_owned(),
        other => format!("%{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let at = OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap();
        let cases = [
            ("%Y.%m.%d", "2023.11.14"),
            ("!%F %T", "2023-11-14 22:13:20"),
            ("%j %a %b %I%p %%", "318 Tue Nov 10PM %"),
            ("plain %", "plain %"),
            ("%Q", "%Q"),
        ];
        for (text, expected) in cases {
            assert_eq!(format(text, at), expected, "{text}");
        }
    }
}
