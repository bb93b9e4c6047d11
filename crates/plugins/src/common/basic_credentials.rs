//! User and password of an `Authorization: Basic` header, for basic-auth and ldap-auth.

use tidegate_clients::nginx_base64;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// White space removed, as APISIX does.
    pub username: String,
    /// As sent: comparisons also try it without white space.
    pub password: String,
}

impl Credentials {
    /// The password with white space removed, which is what APISIX compares.
    pub(crate) fn password_without_space(&self) -> String {
        without_space(&self.password)
    }
}

/// The message of the error is APISIX's; it goes to the log.
pub(crate) fn extract(header: &[u8]) -> Result<Credentials, String> {
    let encoded = after_scheme(header).ok_or("Invalid authorization header format")?;
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let decoded = nginx_base64::decode(encoded)
        .ok_or_else(|| format!("Failed to decode authentication header: {}", lossy(encoded)))?;
    let decoded = lossy(&decoded);
    let Some((username, password)) = decoded.split_once(':') else {
        return Err(format!("Split authorization err: invalid decoded data: {decoded}"));
    };
    Ok(Credentials { username: without_space(username), password: password.to_owned() })
}

fn without_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

/// What follows `basic` and one white space, wherever that is in the header.
fn after_scheme(header: &[u8]) -> Option<&[u8]> {
    let at = header
        .windows(6)
        .position(|part| part[..5].eq_ignore_ascii_case(b"basic") && part[5].is_ascii_whitespace())?;
    header.get(at + 6..).filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let cases: [(&str, Result<(&str, &str), &str>); 7] = [
            ("Basic Zm9vOmJhcg==", Ok(("foo", "bar"))),
            ("bASIC Zm9vOmJhcg==", Ok(("foo", "bar"))),
            ("Basic Zm86YjpheA==", Ok(("fo", "b:ax"))),
            ("Bearer x", Err("Invalid authorization header format")),
            ("Basic ", Err("Invalid authorization header format")),
            ("Basic a", Err("Failed to decode authentication header: a")),
            ("Basic Zm9v", Err("Split authorization err: invalid decoded data: foo")),
        ];
        for (header, expected) in cases {
            let got = extract(header.as_bytes());
            let got = got.as_ref().map(|it| (it.username.as_str(), it.password.as_str()));
            assert_eq!(got.map_err(String::as_str), expected, "{header}");
        }
    }
}
