//! Numbers as Lua's `tostring` writes them (`%.14g`), which headers and messages of APISIX show.

/// `3` for 3.0, `0.5`, `1e+15`.
pub fn lua(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e14 {
        return (value as i64).to_string();
    }
    let hundredths = (value * 100.0).round();
    if hundredths.abs() < 1e13 && hundredths / 100.0 == value {
        return of_hundredths(hundredths as i64);
    }
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
fn of_hundredths(hundredths: i64) -> String {
    let (whole, rest) = (hundredths.unsigned_abs() / 100, hundredths.unsigned_abs() % 100);
    let mut text = if hundredths < 0 { "-".to_owned() } else { String::new() };
    text += &whole.to_string();
    text.push('.');
    text.push(char::from(b'0' + (rest / 10) as u8));
    if rest % 10 != 0 {
        text.push(char::from(b'0' + (rest % 10) as u8));
    }
    text
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
