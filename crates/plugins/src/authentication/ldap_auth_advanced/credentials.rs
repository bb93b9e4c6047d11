//! Name and password of `Proxy-Authorization`, or else of `Authorization`, behind a scheme of the configuration.

use tidegate_clients::nginx_base64;
use tidegate_plugin_api::Request;

use crate::common::auth;

type Credentials = Result<(String, String), &'static str>;

/// A proxy may spend `Proxy-Authorization` on credentials of its own: one that is not usable does not hide the other field.
pub(super) fn of(request: &Request, scheme: &str) -> Credentials {
    let field = |name: &'static str| match auth::credentials(request, name) {
        Ok(field) => Ok(field),
        Err(_) => Err("the field with the credentials is repeated"),
    };
    let proxy = field("Proxy-Authorization")?.map(|value| parse(value, scheme));
    match (proxy, field("Authorization")?) {
        (Some(Ok(credentials)), _) => Ok(credentials),
        (_, Some(value)) => parse(value, scheme),
        (Some(Err(reason)), None) => Err(reason),
        (None, None) => Err("missing authorization header"),
    }
}

fn parse(value: &[u8], scheme: &str) -> Credentials {
    let (found, rest) = value.split_at_checked(scheme.len()).unwrap_or((b"", b""));
    let is_scheme =
        found.eq_ignore_ascii_case(scheme.as_bytes()) && rest.first().is_some_and(u8::is_ascii_whitespace);
    if !is_scheme {
        return Err("invalid authorization header format");
    }
    let decoded =
        nginx_base64::decode(rest.trim_ascii()).ok_or("failed to base64-decode authorization header")?;
    let at =
        decoded.iter().position(|&byte| byte == b':').ok_or("invalid credential: missing ':' separator")?;
    let (name, password) = decoded.split_at(at);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| "the credentials are not UTF-8");
    let (name, password) = (text(name)?, text(password.get(1..).unwrap_or_default())?);
    // RFC 4513, 5.1.2: a bind with a name and no password succeeds without proving anything.
    if password.is_empty() {
        return Err("empty password");
    }
    if name.is_empty() { Err("empty username") } else { Ok((name, password)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn fields() {
        let encoded = |text: &str| nginx_base64::encode(text);
        let good = encoded("user:pass:word");
        for (fields, expected) in [
            (format!("Authorization: ldap {good}\r\n"), Ok("user")),
            (format!("Authorization: LDAP  {good}\r\n"), Ok("user")),
            (format!("Authorization: Basic {good}\r\n"), Err("invalid authorization header format")),
            (format!("Authorization: ldap{good}\r\n"), Err("invalid authorization header format")),
            (format!("Proxy-Authorization: ldap {good}\r\nAuthorization: ldap eDp5\r\n"), Ok("user")),
            (format!("Proxy-Authorization: Basic eDp5\r\nAuthorization: ldap {good}\r\n"), Ok("user")),
            (
                format!("Proxy-Authorization: ldap {}\r\nAuthorization: ldap {good}\r\n", encoded(":x")),
                Ok("user"),
            ),
            (
                "Proxy-Authorization: ldap !\r\n".to_owned(),
                Err("failed to base64-decode authorization header"),
            ),
            (format!("Authorization: ldap {}\r\n", encoded("user:")), Err("empty password")),
            (
                format!("Authorization: ldap {}\r\n", encoded("user")),
                Err("invalid credential: missing ':' separator"),
            ),
            (
                format!("Authorization: ldap {}\r\n", nginx_base64::encode(b"us\xffr:x")),
                Err("the credentials are not UTF-8"),
            ),
            (String::new(), Err("missing authorization header")),
        ] {
            let request = test_request::request(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
            let found = of(&request, "ldap");
            assert_eq!(
                found.as_ref().map(|(name, _)| name.as_str()).map_err(|reason| *reason),
                expected,
                "{fields}"
            );
        }
        let request = test_request::request(&format!(
            "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: ldap {good}\r\n\r\n"
        ));
        assert_eq!(of(&request, "ldap"), Ok(("user".to_owned(), "pass:word".to_owned())));
    }
}
