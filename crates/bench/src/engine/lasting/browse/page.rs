//! A request that can be sent to other paths. Nothing that a server says passes through templates.

pub(crate) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

#[derive(Debug)]
pub(super) struct Page {
    method: Vec<u8>,
    target: Vec<u8>,
    /// The lines of the fields, each with its end.
    fields: Vec<u8>,
    body: Vec<u8>,
}

impl Page {
    /// From the bytes of a request as this tool writes them.
    pub(super) fn of(bytes: &[u8]) -> Page {
        let (line, rest) = cut(bytes, b"\r\n");
        let (method, rest_of_line) = cut(line, b" ");
        let (target, _) = cut(rest_of_line, b" ");
        // A request without fields does not occur: there is a Host.
        let (fields, body) = cut(rest, b"\r\n\r\n");
        let mut fields = fields.to_vec();
        fields.extend_from_slice(b"\r\n");
        Page { method: method.to_vec(), target: target.to_vec(), fields, body: body.to_vec() }
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == b"HEAD"
    }

    pub(super) fn target(&self) -> &[u8] {
        &self.target
    }

    /// The target without its query.
    pub(super) fn path(&self) -> &[u8] {
        cut(&self.target, b"?").0
    }

    /// What browsers ask for next: 303 makes everything a GET, 301 and 302 a POST (RFC 9110 section 15.4).
    pub(super) fn redirect(&mut self, status: u16, target: &[u8]) {
        self.target = target.to_vec();
        let becomes_get = match status {
            303 => !self.is_head(),
            301 | 302 => self.method == b"POST",
            _ => false,
        };
        if !becomes_get {
            return;
        }
        self.method = b"GET".to_vec();
        self.body.clear();
        let lines = self.fields.split_inclusive(|byte| *byte == b'\n');
        let of_body = |line: &&[u8]| {
            let name = cut(line, b":").0;
            [&b"content-length"[..], b"content-type"].iter().any(|field| name.eq_ignore_ascii_case(field))
        };
        self.fields = lines.filter(|line| !of_body(line)).flatten().copied().collect();
    }

    pub(super) fn write(&self, cookies: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.fields.len() + self.body.len() + 256);
        for part in [&self.method[..], b" ", &self.target, b" HTTP/1.1\r\n", &self.fields] {
            out.extend_from_slice(part);
        }
        if let Some(cookies) = cookies {
            for part in [b"Cookie: ", cookies, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
        out
    }
}

/// What stands before and behind the first `mark`.
fn cut<'a>(bytes: &'a [u8], mark: &[u8]) -> (&'a [u8], &'a [u8]) {
    let at = bytes.windows(mark.len()).position(|window| window == mark).unwrap_or(bytes.len());
    (bytes.get(..at).unwrap_or_default(), bytes.get(at + mark.len()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_change_as_in_browsers() {
        let post = b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Type: x\r\nContent-Length: 2\r\n\r\nhi";
        let sent = |status: u16| {
            let mut page = Page::of(post);
            assert_eq!((page.path(), page.target()), (&b"/a"[..], &b"/a?b"[..]));
            page.redirect(status, b"/c");
            String::from_utf8(page.write(Some(b"k=v"))).expect("text")
        };
        for status in [301, 302, 303] {
            assert_eq!(sent(status), "GET /c HTTP/1.1\r\nHost: h\r\nCookie: k=v\r\n\r\n");
        }
        let kept = sent(307);
        assert!(
            kept.starts_with("POST /c HTTP/1.1\r\nHost: h\r\nContent-Type") && kept.ends_with("\r\n\r\nhi")
        );
        assert_eq!(Page::of(post).write(None), post);
    }
}
