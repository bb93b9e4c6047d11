//! The requests of a run, as bytes: made once when nothing in them varies.

use crate::{
    Problem,
    template::{Source, Template, write_number},
};

/// What to send, before it is known how.
#[derive(Clone, Debug)]
pub struct RequestSpec {
    /// As on the request line.
    pub method: String,
    /// Path and query; may hold placeholders.
    pub path: String,
    /// (name, value); values may hold placeholders.
    pub headers: Vec<(String, String)>,
    /// A template; `None`: no body.
    pub body: Option<String>,
}

/// The form of HTTP/1 that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http1 {
    /// Whether HTTP/1.0 is spoken.
    pub version_10: bool,
    /// Whether connections are used again.
    pub keep_alive: bool,
}

/// One request, ready to be sent any number of times.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Bytes,
    /// Its answer has no body whatever the head says.
    pub(crate) is_head: bool,
}

#[derive(Clone, Debug)]
enum Bytes {
    Fixed(Vec<u8>),
    Varying { head: Template, body: Option<Template> },
}

impl Request {
    /// `host`: the field `Host`.
    pub fn new(spec: &RequestSpec, host: &str, form: Http1) -> Result<Request, Problem> {
        let text = head(spec, host, form)?;
        let head = Template::parse(&text)?;
        let body = spec.body.as_deref().map(Template::parse).transpose()?;
        let fixed_body = body.as_ref().map_or(Some(&[][..]), |body| body.fixed());
        let bytes = match (head.fixed(), fixed_body) {
            (Some(_), Some(_)) => {
                let mut bytes = Vec::new();
                let mut nobody = Source::nobody();
                write(&mut bytes, &head, body.as_ref(), &mut Vec::new(), &mut nobody);
                Bytes::Fixed(bytes)
            }
            _ => Bytes::Varying { head, body },
        };
        Ok(Request { bytes, is_head: spec.method == "HEAD" })
    }

    /// The bytes, when they are the same each time.
    pub fn fixed(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Fixed(bytes) => Some(bytes),
            Bytes::Varying { .. } => None,
        }
    }

    /// Appends the request to `out`. `scratch` is a buffer to reuse.
    pub fn write(&self, out: &mut Vec<u8>, scratch: &mut Vec<u8>, source: &mut Source) {
        match &self.bytes {
            Bytes::Fixed(bytes) => out.extend_from_slice(bytes),
            Bytes::Varying { head, body } => write(out, head, body.as_ref(), scratch, source),
        }
    }
}

/// The body comes first: its length stands in the head.
fn write(
    out: &mut Vec<u8>,
    head: &Template,
    body: Option<&Template>,
    scratch: &mut Vec<u8>,
    source: &mut Source,
) {
    head.render(out, source);
    if let Some(body) = body {
        scratch.clear();
        body.render(scratch, source);
        out.extend_from_slice(b"Content-Length: ");
        write_number(out, scratch.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(scratch);
    } else {
        out.extend_from_slice(b"\r\n");
    }
}

/// Everything before `Content-Length`, which comes last because it is counted last.
fn head(spec: &RequestSpec, host: &str, form: Http1) -> Result<String, Problem> {
    check_token(&spec.method, "method")?;
    let version = if form.version_10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut text = format!("{} {} {version}\r\n", spec.method, spec.path);
    let given = |name: &str| spec.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if !given("host") {
        text.push_str(&format!("Host: {host}\r\n"));
    }
    for (name, value) in &spec.headers {
        check_token(name, "header name")?;
        if value.chars().any(|letter| letter.is_control() && letter != '\t') {
            return Err(Problem::usage(format!("the value of header {name} holds a control character")));
        }
        if name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Problem::usage(format!("{name} is written by the tool; leave it out of -H")));
        }
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !given("connection") {
        match (form.version_10, form.keep_alive) {
            (true, true) => text.push_str("Connection: keep-alive\r\n"),
            (false, false) => text.push_str("Connection: close\r\n"),
            (true, false) | (false, true) => {}
        }
    }
    Ok(text)
}

fn check_token(text: &str, what: &str) -> Result<(), Problem> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(letter) {
        return Err(Problem::usage(format!("{text:?} is not a {what}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Random;

    fn spec(path: &str, headers: &[(&str, &str)], body: Option<&str>) -> RequestSpec {
        RequestSpec {
            method: if body.is_some() { "POST" } else { "GET" }.into(),
            path: path.into(),
            headers: headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            body: body.map(Into::into),
        }
    }

    const PLAIN: Http1 = Http1 { version_10: false, keep_alive: true };

    #[test]
    fn requests_as_bytes() {
        let text = |spec: &RequestSpec, form| {
            let request = Request::new(spec, "h:1", form).unwrap_or_else(|problem| panic!("{problem}"));
            String::from_utf8(request.fixed().expect("nothing varies").to_vec()).expect("text")
        };
        assert_eq!(text(&spec("/", &[], None), PLAIN), "GET / HTTP/1.1\r\nHost: h:1\r\n\r\n");
        assert_eq!(
            text(&spec("/", &[("host", "x"), ("A", "b")], Some("hi")), Http1 { keep_alive: false, ..PLAIN }),
            "POST / HTTP/1.1\r\nhost: x\r\nA: b\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
        );
        assert_eq!(
            text(&spec("/", &[], None), Http1 { version_10: true, keep_alive: true }),
            "GET / HTTP/1.0\r\nHost: h:1\r\nConnection: keep-alive\r\n\r\n"
        );
    }

    #[test]
    fn varying_parts_have_the_right_length() {
        let request = Request::new(&spec("/{{seq}}", &[], Some("n={{seq}}")), "h", PLAIN).expect("good");
        assert!(request.fixed().is_none());
        let mut source = Source { number: 123, connection: 0, thread: 0, random: Random::new(1) };
        let mut out = Vec::new();
        request.write(&mut out, &mut Vec::new(), &mut source);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "POST /123 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nn=123");
    }

    #[test]
    fn mistakes_are_named() {
        for (name, value) in [("bad name", "x"), ("A", "b\r\nC: d"), ("Content-Length", "5")] {
            assert!(Request::new(&spec("/", &[(name, value)], None), "h", PLAIN).is_err(), "{name}");
        }
    }
}
