use super::{Location, Origin, on_this_site};

/// `A:`, `S:` and `C:` begin the pieces of author, site and client.
fn check(pieces: &[&str], expected: Option<&str>) {
    let mut location = Location::default();
    for piece in pieces {
        let (origin, text) = piece.split_once(':').expect("an origin");
        let origin = match origin {
            "A" => Origin::Author,
            "S" => Origin::Site,
            _ => Origin::Client,
        };
        location.push(origin, text.as_bytes());
    }
    let found = location.finish().map(|value| String::from_utf8(value).expect("UTF-8"));
    assert_eq!(found.as_deref(), expected, "{pieces:?}");
}

#[test]
fn what_names_no_host_stays_here() {
    check(&["A:/", "C:a/b"], Some("/a/b"));
    check(&["A:/", "C:/evil.example"], Some("/evil.example"));
    check(&["A:/", "C:\\evil.example"], Some("/evil.example"));
    check(&["A:/", "C:\\\\evil.example"], Some("/evil.example"));
    check(&["A:/", "C:./\\evil.example"], Some("/evil.example"));
    check(&["A:/", "C:..//evil.example"], Some("/evil.example"));
    check(&["A:/", "C:\t/evil.example"], Some("/%09/evil.example"));
    check(&["A:/", "C:\r\n/evil.example"], Some("/%0D%0A/evil.example"));
    check(&["A:/", "C:x\\..\\evil"], Some("/x%5C..%5Cevil"));
    check(&["A:/", "C:@evil.example"], Some("/@evil.example"));
    check(&["C:/a?b=\\c"], Some("/a?b=\\c"));
    check(&["C://evil.example"], Some("/evil.example"));
    check(&["C:https://evil.example/"], Some("/https://evil.example/"));
    check(&["C:HtTpS:evil.example"], Some("/HtTpS:evil.example"));
    check(&["C:evil.example"], Some("/evil.example"));
    check(&["C: //evil.example"], Some("/ //evil.example"));
    check(&[], Some("/"));
    // An empty capture between two slashes.
    check(&["A:/", "C:", "A:/evil"], Some("/evil"));
    check(&["A:next", "C:://evil.example"], Some("./next://evil.example"));
    check(&["A:?next=", "C://evil.example"], Some("?next=//evil.example"));
    check(&["A:https:", "C://evil.example"], None);
    check(&["A:https:/", "C:/evil.example"], None);
    check(&["A:app:open?", "C:x"], Some("app:open?x"));
}

#[test]
fn a_host_that_the_author_names_stays_as_it_is() {
    check(&["A:https://example.org/", "C:/a"], Some("https://example.org//a"));
    check(&["A://cdn.example.org/", "C:a"], Some("//cdn.example.org/a"));
    check(&["S:https", "A:://", "S:h.example", "C:/a\\b"], Some("https://h.example/a%5Cb"));
    check(&["A:https://", "S:h.example:8080", "A::9443", "C:/a"], Some("https://h.example:8080:9443/a"));
    check(&["A:https://", "S:[::1]:80", "C:/a"], Some("https://[::1]:80/a"));
    check(&["A:https://", "S:h", "C:*"], Some("https://h/*"));
    check(&["A:https://www.", "S:h.example", "C:/"], Some("https://www.h.example/"));
    // The capture would continue the host name, or turn it into user information.
    check(&["A:https://example.org", "C:.evil.example/"], Some("https://example.org/.evil.example/"));
    check(&["A:https://example.org", "C:@evil.example/"], Some("https://example.org/@evil.example/"));
    check(&["A:https://example.org", "C:\\@evil.example"], Some("https://example.org/%5C@evil.example"));
    check(&["A:https://example.org", "C:?a=@b"], Some("https://example.org?a=@b"));
    check(&["A:https://example.org:", "C:8443", "A:/"], Some("https://example.org:8443/"));
    check(
        &["A:https://example.org:", "C:1@evil.example", "A:/"],
        Some("https://example.org:/1@evil.example/"),
    );
    // Labels to the left are the author's choice.
    check(&["A:https://", "C:shop", "A:.example.org/"], Some("https://shop.example.org/"));
    check(&["A:https://", "C:evil.example/", "A:.example.org/"], None);
    check(&["A:https://", "C:evil.example#", "A:.example.org/"], None);
    check(&["A:https://", "C:a@evil.example:1", "A:.example.org/"], None);
    // The client's choice alone.
    check(&["A:https://", "C:evil.example", "A:/"], None);
    check(&["A:https://", "C:evil.example", "A::8443/"], None);
    check(&["A:https://", "S:a@evil.example", "A:/"], None);
    check(&["A:https://", "S:", "A:/"], None);
    check(&["S:javascript", "A:://", "S:h/"], None);
    check(&["C:https://evil.example/?", "A:://", "S:h"], Some("/https://evil.example/?://h"));
    // The upstream's own word.
    check(&["A:https://other.example/x"], Some("https://other.example/x"));
}

#[test]
fn paths_of_clients() {
    for (path, expected) in
        [("/a?b", "/a?b"), ("//evil.test/x", "/evil.test/x"), ("/\\evil", "/evil"), ("*", "/*")]
    {
        assert_eq!(on_this_site(path.as_bytes()), expected.as_bytes());
    }
}
