//! Numbers as people read them.

/// Microseconds: `950ns`, `12.3us`, `4.56ms`, `1.20s`.
pub fn time(us: f64) -> String {
    match us {
        us if us < 1.0 => format!("{:.0}ns", us * 1000.0),
        us if us < 1000.0 => format!("{us:.1}us"),
        us if us < 1_000_000.0 => format!("{:.2}ms", us / 1000.0),
        us => format!("{:.2}s", us / 1_000_000.0),
    }
}

/// `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Such as `1.50MB`.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} B"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.1} KiB", bytes / 1024.0),
        bytes if bytes < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", bytes / 1024.0 / 1024.0),
        bytes => format!("{:.2} GiB", bytes / 1024.0 / 1024.0 / 1024.0),
    }
}

/// Such as `1.5 %`; 0 of 0 is 0.
pub fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    if share > 0.0 && share < 0.1 { format!("{share:.4} %") } else { format!("{share:.1} %") }
}

/// Three digits: `950`, `12.3k`, `1.20M`.
pub fn brief(number: f64) -> String {
    let (scaled, unit) = match number {
        number if number < 999.5 => return format!("{number:.0}"),
        number if number < 999_500.0 => (number / 1e3, "k"),
        number => (number / 1e6, "M"),
    };
    let digits = if scaled < 9.995 { 2 } else { usize::from(scaled < 99.95) };
    format!("{scaled:.digits$}{unit}")
}

/// At most three digits behind the point, and none that say nothing.
pub fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Mean and standard deviation.
pub fn spread(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), middle.checked_sub(1).and_then(|below| sorted.get(below))) {
        (Some(&high), Some(&low)) if sorted.len().is_multiple_of(2) => (low + high) / 2.0,
        (Some(&high), _) => high,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(
            [0.5, 12.34, 4560.0, 1_200_000.0].map(time),
            ["500ns", "12.3us", "4.56ms", "1.20s"].map(String::from)
        );
        assert_eq!([5, 1234, 1_234_567].map(count), ["5", "1,234", "1,234,567"].map(String::from));
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(1, 10_000), "0.0100 %");
    }
}
