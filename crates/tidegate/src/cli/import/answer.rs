//! An answer of nginx or of the conversion, and where two differ.

use std::collections::BTreeMap;

use tidegate_protocol::ResponseHead;

/// Of every answer its own, or about the connection.
const NOT_COMPARED: [&str; 12] = [
    "accept-ranges",
    "age",
    "connection",
    "content-length",
    "date",
    "etag",
    "expires",
    "keep-alive",
    "last-modified",
    "server",
    "transfer-encoding",
    "vary",
];

/// What the gateway's pages of errors have, and no page of nginx.
const OWN_PAGE: &str = "<p>Tidegate, compatible with ";

#[derive(Debug, Default)]
pub(super) struct ObservedResponse {
    /// 0: the connection closed without one.
    status: u16,
    fields: BTreeMap<String, Vec<String>>,
    body: Vec<u8>,
}

impl ObservedResponse {
    /// The address that was asked does not count in a Location.
    pub(super) fn new(head: ResponseHead, body: Vec<u8>, asked: &Asked) -> ObservedResponse {
        let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in head.headers.iter() {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let value = String::from_utf8_lossy(value);
            let value = if name == "location" { place(&value, asked) } else { value.into_owned() };
            fields.entry(name).or_default().push(value);
        }
        ObservedResponse { status: head.status, fields, body }
    }

    /// By the import. Where files are not there, and what nginx does then is closed, the status has the gateway's own page.
    pub(super) fn is_closed(&self) -> bool {
        let is_own_page = || self.body.windows(OWN_PAGE.len()).any(|part| part == OWN_PAGE.as_bytes());
        let body = &self.body;
        self.status == 501 && (body.is_empty() || body.starts_with(b"closed by import") || is_own_page())
    }

    pub(super) fn status_text(&self) -> String {
        if self.status == 0 { "closes the connection".to_owned() } else { self.status.to_string() }
    }

    /// nginx's own pages, and ours in their place.
    fn is_page(&self) -> bool {
        self.status >= 300
    }

    /// `status: nginx 200, here 403`
    pub(super) fn differences(&self, ours: &ObservedResponse) -> Vec<String> {
        let mut list = Vec::new();
        if self.status != ours.status {
            list.push(format!("status: nginx {}, here {}", self.status_text(), ours.status_text()));
            return list;
        }
        let both_pages = self.is_page() && ours.is_page();
        let names: Vec<&String> = self.fields.keys().chain(ours.fields.keys()).collect();
        let mut seen = std::collections::BTreeSet::new();
        for name in names {
            let is_of_page = both_pages && name == "content-type";
            if NOT_COMPARED.contains(&name.as_str()) || is_of_page || !seen.insert(name) {
                continue;
            }
            let of = |answer: &ObservedResponse| {
                answer.fields.get(name).map_or("nothing".to_owned(), |values| values.join(", "))
            };
            if of(self) != of(ours) {
                list.push(format!("{name}: nginx {}, here {}", of(self), of(ours)));
            }
        }
        if !both_pages && self.body != ours.body {
            list.push(format!("body: nginx {} bytes, here {}", self.body.len(), ours.body.len()));
        }
        list
    }
}

/// What was asked, by either side.
pub(super) struct Asked<'s> {
    /// The field `Host`.
    pub(super) host: &'s str,
    /// That of nginx, and the one that answered.
    pub(super) ports: [u16; 2],
}

/// nginx puts its own address before a path.
fn place(location: &str, asked: &Asked) -> String {
    let path = [("http://", 80), ("https://", 443)].into_iter().find_map(|(scheme, usual)| {
        let rest = location.strip_prefix(scheme)?;
        let (authority, path) = rest.split_at(rest.find('/')?);
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let is_own = match port {
            Some(port) => asked.ports.contains(&port),
            None => asked.ports.contains(&usual) && authority == asked.host,
        };
        is_own.then_some(path)
    });
    path.unwrap_or(location).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let at = Asked { host: "h", ports: [8080, 443] };
        let answer = |text: &[u8]| {
            let mut head = ResponseHead::default();
            let end = head.parse(text, 1000, 100).unwrap().expect("a whole head");
            ObservedResponse::new(head, text[end..].to_vec(), &at)
        };
        let one = answer(b"HTTP/1.1 301 M\r\nServer: nginx\r\nLocation: http://h:8080/a/\r\n\r\npage");
        let same = answer(b"HTTP/1.1 301 M\r\nLocation: /a/\r\n\r\nanother");
        assert!(one.differences(&same).is_empty(), "{:?}", one.differences(&same));
        let usual = answer(b"HTTP/1.1 301 M\r\nLocation: https://h/a/\r\n\r\n");
        assert!(one.differences(&usual).is_empty(), "{:?}", one.differences(&usual));
        let plain = answer(b"HTTP/1.1 301 M\r\nLocation: http://h/a/\r\n\r\n");
        assert_eq!(one.differences(&plain), ["location: nginx /a/, here http://h/a/"]);
        let other = answer(b"HTTP/1.1 301 M\r\nLocation: /b/\r\nX-A: 1\r\n\r\n");
        assert_eq!(one.differences(&other), ["location: nginx /a/, here /b/", "x-a: nginx nothing, here 1"]);
        let page = b"HTTP/1.1 501 N\r\n\r\n<h1>501 Not Implemented</h1><p>Tidegate, compatible with <a href";
        assert!(answer(page).is_closed() && !answer(b"HTTP/1.1 501 N\r\n\r\n<h1>501</h1>").is_closed());
        let none = ObservedResponse::default();
        assert_eq!(one.differences(&none), ["status: nginx 301, here closes the connection"]);
    }
}
