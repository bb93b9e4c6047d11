//! `V1#APPID#TOKEN`: an application of wolf, and what wolf gave its user at the login.

use tidegate_plugin_api::Request;

use crate::common::auth;

const VERSION: &str = "V1";

pub(super) struct Token {
    pub(super) app_id: String,
    /// Wolf's own token.
    pub(super) secret: String,
}

/// As it is given to users.
pub(super) fn written(app_id: &str, secret: &str) -> String {
    format!("{VERSION}#{app_id}#{secret}")
}

/// From the query, `Authorization`, `X-Rbac-Token` or a cookie, in this order.
pub(super) fn of(request: &Request) -> Result<Token, &'static str> {
    const INVALID: &str = "invalid rbac token: parse failed";
    let field = |name: &'static str| auth::credentials(request, name).map_err(|_| INVALID);
    let token = match request.arg("rbac_token") {
        Some(token) => Some(token),
        None => match field("Authorization")? {
            Some(token) => Some(token.to_vec()),
            None => field("X-Rbac-Token")?.or_else(|| request.cookie("x-rbac-token")).map(<[u8]>::to_vec),
        },
    };
    parse(&token.ok_or("Missing rbac token in request")?).ok_or(INVALID)
}

fn parse(token: &[u8]) -> Option<Token> {
    // Wolf gets it in a field of a head.
    let text = std::str::from_utf8(token).ok().filter(|text| !text.chars().any(char::is_control))?;
    let mut parts = text.splitn(3, '#');
    let (version, app_id, secret) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = version == VERSION && !secret.is_empty();
    is_whole.then(|| Token { app_id: app_id.to_owned(), secret: secret.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn places_of_tokens() {
        let head = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        for (target, fields, expected) in [
            ("/?rbac_token=V1%23a%23q", "Authorization: V1#a#h\r\n", Ok("q")),
            ("/", "X-Rbac-Token: V1#a#x\r\nAuthorization: V1#a#h#i\r\n", Ok("h#i")),
            ("/", "Cookie: x-rbac-token=V1#a#c\r\nX-Rbac-Token: V1#a#x\r\n", Ok("x")),
            ("/", "Cookie: x-rbac-token=V1#a#c\r\n", Ok("c")),
            ("/", "", Err("Missing rbac token in request")),
            ("/", "X-Rbac-Token: V2#a#x\r\n", Err("invalid rbac token: parse failed")),
            ("/", "X-Rbac-Token: V1#a\r\n", Err("invalid rbac token: parse failed")),
            ("/", "X-Rbac-Token: V1#a#\r\n", Err("invalid rbac token: parse failed")),
            ("/?rbac_token=V1%23a%23q%0d%0ax", "", Err("invalid rbac token: parse failed")),
        ] {
            let request = test_request::request(&head(target, fields));
            let found = of(&request).map(|token| token.secret);
            assert_eq!(found.as_deref().map_err(|reason| *reason), expected, "{target} {fields}");
        }
    }
}
