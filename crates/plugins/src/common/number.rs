//! Numbers as Lua's `tostring` writes them (`%.14g`), which headers and messages of APISIX show.

/// `3` for 3.0, `0.5`, `1e+15`.
pub fn lua(value: f64) -> String {
    let mut text = Vec::new();
    match write_short(value, &mut text) {
        true => String::from_utf8(text).unwrap_or_default(),
        false => long(value),
    }
}

/// Appends what [`lua`] returns.
pub(crate) fn write_lua(value: f64, out: &mut Vec<u8>) {
    if !write_short(value, out) {
        out.extend_from_slice(long(value).as_bytes());
    }
}

/// Appends whole numbers and hundredths; `false`: it is something else.
fn write_short(value: f64, out: &mut Vec<u8>) -> bool {
    let whole = value as i64;
    if whole as f64 == value && whole.unsigned_abs() < 100_000_000_000_000 {
        out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
        return true;
    }
    let hundredths = (value * 100.0).round();
    let is_short = hundredths.abs() < 1e13 && hundredths / 100.0 == value;
    if is_short {
        write_hundredths(hundredths as i64, out);
    }
    is_short
}

/// All others.
fn long(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".to_owned()
        } else if value > 0.0 {
            "inf".to_owned()
        } else {
            "-inf".to_owned()
        };
    }
    let exponent = value.abs().log10().floor() as i32;
    if (-5..14).contains(&exponent) {
        let text = format!("{value:.*}", (13 - exponent).max(0) as usize);
        return trim_fraction(&text).to_owned();
    }
    let text = format!("{value:.13e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{}e{sign}{digits:0>2}", trim_fraction(mantissa))
}

/// What most limits show: seconds to two digits.
fn write_hundredths(hundredths: i64, out: &mut Vec<u8>) {
    let (whole, rest) = (hundredths.unsigned_abs() / 100, hundredths.unsigned_abs() % 100);
    if hundredths < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    out.extend_from_slice(&[b'.', b'0' + (rest / 10) as u8]);
    if rest % 10 != 0 {
        out.push(b'0' + (rest % 10) as u8);
    }
}

fn trim_fraction(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::lua;

    #[test]
    fn as_lua_prints_them() {
        let cases = [
            (0.0, "0"),
            (3.0, "3"),
            (-2.0, "-2"),
            (0.5, "0.5"),
            (59.98, "59.98"),
            (59.5, "59.5"),
            (-0.07, "-0.07"),
            (0.1 + 0.2, "0.3"),
            (59.981, "59.981"),
            (1e15, "1e+15"),
            (2_000_000_000_000.0, "2000000000000"),
            (1e-7, "1e-07"),
            (123456.789, "123456.789"),
            (1.5e300, "1.5e+300"),
        ];
        for (value, expected) in cases {
            assert_eq!(lua(value), expected);
        }
    }
}
