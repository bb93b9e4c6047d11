//! Cookies of the gateway's own, in pieces that browsers take.

use tidegate_plugin_api::Request;

/// Browsers take about 4 KB per cookie, attributes included.
pub(crate) const COOKIE_BYTES: usize = 3800;
const MAX_COOKIES: usize = 8;

/// A value that the browser keeps. A long one has further cookies, whose names end in a number.
pub(crate) struct Cookie {
    pub(crate) name: String,
    /// Each with `; ` in front, without `Secure`.
    pub(crate) attributes: String,
    /// Unset: where the request came over TLS.
    pub(crate) secure: Option<bool>,
}

/// Cookies for a response that the upstream makes.
struct Pending(Vec<String>);

/// Sets cookies on the response that is still to come: see [`send`].
pub(crate) fn set(request: &mut Request, lines: Vec<String>) {
    match request.extensions.get_mut::<Pending>() {
        Some(Pending(others)) => others.extend(lines),
        None => request.extensions.insert(Pending(lines)),
    }
}

/// In `header_filter`: adds the cookies that were set before.
pub(crate) fn send(request: &mut Request) {
    if let Some(Pending(lines)) = request.extensions.take() {
        for line in lines {
            request.response.headers.add("Set-Cookie", line);
        }
    }
}

impl Cookie {
    /// The value that the request brings; empty without one.
    pub(crate) fn read(&self, request: &Request) -> Vec<u8> {
        let pieces = (0..MAX_COOKIES).map_while(|number| request.cookie(&self.name(number)));
        pieces.flatten().copied().collect()
    }

    /// The `Set-Cookie` lines for a value; an empty one removes the cookie. Pieces of a longer value that the browser still has are
    /// removed. `None`: it is too large. The value is of ASCII characters that a cookie may have.
    pub(crate) fn lines(&self, value: &str, request: &Request) -> Option<Vec<String>> {
        let secure = if self.secure.unwrap_or(request.https) { "; Secure" } else { "" };
        let mut pieces = Vec::new();
        let mut rest = value;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_checked(COOKIE_BYTES).unwrap_or((rest, ""));
            pieces.push(piece);
            rest = after;
        }
        if pieces.len() > MAX_COOKIES {
            return None;
        }
        let lines = (0..MAX_COOKIES).filter_map(|number| {
            let name = self.name(number);
            match pieces.get(number) {
                Some(piece) => Some(format!("{name}={piece}{}{secure}", self.attributes)),
                None if request.cookie(&name).is_some() => {
                    Some(format!("{name}={}{secure}; Max-Age=0", self.attributes))
                }
                None => None,
            }
        });
        Some(lines.collect())
    }

    fn name(&self, number: usize) -> String {
        if number == 0 { self.name.clone() } else { format!("{}{}", self.name, number + 1) }
    }
}
