use super::*;

fn parse(text: &str) -> Result<Option<(RequestHead, usize)>, ParseError> {
    let mut head = RequestHead::default();
    let consumed = head.parse(text.as_bytes(), &mut 0, &RequestLimits::default())?;
    Ok(consumed.map(|consumed| (head, consumed)))
}

#[test]
fn a_plain_request() {
    let text = "GET /a/b?x=1 HTTP/1.1\r\nHost: example.com\r\nX-Thing:  spaced \r\n\r\nrest";
    let (head, consumed) = parse(text).unwrap().unwrap();
    assert_eq!(consumed, text.len() - 4);
    assert_eq!(head.method, Method::Get);
    assert_eq!(head.raw_path(), b"/a/b");
    assert_eq!(head.query(), Some(&b"x=1"[..]));
    assert_eq!(head.host().unwrap(), Some(&b"example.com"[..]));
    assert_eq!(head.headers.get("x-thing"), Some(&b"spaced"[..]));
    let mut out = Vec::new();
    head.headers.write_fields(&mut out, |_| true);
    assert_eq!(out, b"Host: example.com\r\nX-Thing: spaced\r\n");
}

#[test]
fn any_cut_of_a_valid_head_is_partial() {
    let text = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
    let mut tried = 0;
    let mut head = RequestHead::default();
    for cut in 0..text.len() {
        assert!(parse(&text[..cut]).unwrap().is_none(), "cut at {cut}");
        let resumed = head.parse(&text.as_bytes()[..cut], &mut tried, &RequestLimits::default());
        assert!(resumed.unwrap().is_none(), "resumed at {cut}");
    }
    assert!(head.parse(text.as_bytes(), &mut tried, &RequestLimits::default()).unwrap().is_some());
}

#[test]
fn refused_heads() {
    let cases = [
        ("GET / HTTP/1.1\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n: h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nA: b\0c\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1 \r\n\r\n", 400),
        ("GET /\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 505),
        ("GET /a\\..\\b HTTP/1.1\r\n\r\n", 400),
        ("GET / http/1.1\r\n\r\n", 400),
        ("G@T / HTTP/1.1\r\n\r\n", 400),
        ("GET x HTTP/1.1\r\n\r\n", 400),
        ("GET /a#b HTTP/1.1\r\n\r\n", 400),
        ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        ("CONNECT /a HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        ("GET http://user@h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ];
    for (text, status) in cases {
        assert_eq!(parse(text).unwrap_err().status, status, "{text:?}");
    }
}

#[test]
fn host_rules() {
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", None),
        ("GET http://x.org:81/p HTTP/1.1\r\nHost: a\r\n\r\n", Some("x.org:81")),
        ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", Some("[::1]:80")),
    ];
    for (text, expected) in cases {
        let (head, _) = parse(text).unwrap().unwrap();
        let host = head.host().ok().flatten().map(|host| String::from_utf8_lossy(host).into_owned());
        assert_eq!(host.as_deref(), expected, "{text:?}");
    }
}

#[test]
fn limits_are_named_by_status() {
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(20_000));
    assert_eq!(parse(&long_target).unwrap_err().status, 414);
    let endless_target = format!("GET /{}", "a".repeat(40_000));
    assert_eq!(parse(&endless_target).unwrap_err().status, 414);
    let big = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(40_000));
    assert_eq!(parse(&big).unwrap_err().status, 431);
    let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(150));
    assert_eq!(parse(&many).unwrap_err().status, 431);
}
