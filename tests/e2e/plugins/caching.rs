//! proxy-cache beside RFC 9111: a table of what a shared cache must not store (section 3) and must not use again
//! (section 4), run against both strategies, with `cache_control` and without.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::upstream::{Behaviour, Step};
use tidegate_testkit::{Gateway, Message, PATIENCE, Upstream};

use crate::plugins::tokens::token;

use Reuse::{Always, Never, Said};

/// Whether the second request may be answered with what the first one brought.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reuse {
    Never,
    Always,
    /// Not where only a lifetime in the answer counts (`cache_control` of the memory strategy).
    Said,
}

struct Row {
    name: &'static str,
    /// Method and fields of the first request.
    first: (&'static str, &'static str),
    /// Status and fields of its answer.
    answer: (u16, &'static str),
    second: (&'static str, &'static str),
    reuse: Reuse,
}

/// Not `Basic`: the user's name would be in the key, and tell the requests apart.
const ALICE: &str = "Authorization: Bearer alice\r\n";
const FRESH: &str = "Cache-Control: max-age=60\r\n";

/// A `GET` without fields, twice.
const fn answer(name: &'static str, status: u16, fields: &'static str, reuse: Reuse) -> Row {
    Row { name, first: ("GET", ""), answer: (status, fields), second: ("GET", ""), reuse }
}

/// The first request has fields, the second one is anybody's.
const fn asked(name: &'static str, fields: &'static str, answered: &'static str, reuse: Reuse) -> Row {
    Row { name, first: ("GET", fields), answer: (200, answered), second: ("GET", ""), reuse }
}

const ROWS: &[Row] = &[
    answer("fresh", 200, FRESH, Always),
    answer("nothing said", 200, "", Said),
    answer("public without a lifetime", 200, "Cache-Control: public\r\n", Said),
    answer("Expires to come", 200, "Expires: Thu, 01 Jan 2099 00:00:00 GMT\r\n", Always),
    answer("no-store", 200, "Cache-Control: no-store\r\n", Never),
    answer("no-store beside a lifetime", 200, "Cache-Control: max-age=60, no-store\r\n", Never),
    answer("no-store in capitals", 200, "Cache-Control: max-age=60, NO-STORE\r\n", Never),
    answer(
        "no-store in a second line",
        200,
        "Cache-Control: max-age=60\r\ncache-control: no-store\r\n",
        Never,
    ),
    answer("no-store behind an open quote", 200, "Cache-Control: max-age=60, x=\"a, no-store\r\n", Never),
    answer("private", 200, "Cache-Control: private, max-age=60\r\n", Never),
    answer("private for a field", 200, "Cache-Control: private=\"x-name\", max-age=60\r\n", Never),
    answer("no-cache", 200, "Cache-Control: no-cache, max-age=60\r\n", Never),
    answer("no-cache for a field", 200, "Cache-Control: no-cache=\"x-name\", max-age=60\r\n", Never),
    answer("max-age of 0", 200, "Cache-Control: max-age=0\r\n", Never),
    answer("s-maxage of 0 wins", 200, "Cache-Control: max-age=60, s-maxage=0\r\n", Never),
    answer("s-maxage wins over max-age of 0", 200, "Cache-Control: max-age=0, s-maxage=60\r\n", Always),
    answer("max-age in quotes", 200, "Cache-Control: max-age=\"60\"\r\n", Always),
    answer("max-age that is not a number", 200, "Cache-Control: max-age=soon\r\n", Never),
    answer("max-age below 0", 200, "Cache-Control: max-age=-60\r\n", Never),
    answer("max-age twice", 200, "Cache-Control: max-age=60, max-age=0\r\n", Never),
    answer(
        "max-age of 0 wins over Expires",
        200,
        "Cache-Control: max-age=0\r\nExpires: Thu, 01 Jan 2099 00:00:00 GMT\r\n",
        Never,
    ),
    answer("Expires in the past", 200, "Expires: Thu, 01 Jan 2015 00:00:00 GMT\r\n", Never),
    answer("Expires: 0", 200, "Expires: 0\r\n", Never),
    answer(
        "Expires as early as Date",
        200,
        "Date: Thu, 01 Jan 2099 00:00:00 GMT\r\nExpires: Thu, 01 Jan 2099 00:00:00 GMT\r\n",
        Never,
    ),
    answer("too old as it comes", 200, "Cache-Control: max-age=60\r\nAge: 60\r\n", Never),
    answer("old, not too old", 200, "Cache-Control: max-age=60\r\nAge: 10\r\n", Always),
    answer("Vary: *", 200, "Cache-Control: max-age=60\r\nVary: *\r\n", Never),
    answer("Vary: * in a list", 200, "Cache-Control: max-age=60\r\nVary: Accept, *\r\n", Never),
    answer("Set-Cookie", 200, "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n", Never),
    answer("a part", 206, "Cache-Control: max-age=60\r\nContent-Range: bytes 0-3/9\r\n", Never),
    answer("not modified", 304, FRESH, Never),
    answer("must-understand, understood", 200, "Cache-Control: must-understand, max-age=60\r\n", Always),
    answer(
        "must-understand, a status of its own",
        299,
        "Cache-Control: must-understand, max-age=60\r\n",
        Never,
    ),
    answer("a status that is not listed", 500, FRESH, Never),
    asked("no-store of the request", "Cache-Control: no-store\r\n", FRESH, Never),
    asked("credentials", ALICE, FRESH, Never),
    asked("credentials, nothing said", ALICE, "", Never),
    asked("credentials, public", ALICE, "Cache-Control: public, max-age=60\r\n", Always),
    asked("credentials, Public", ALICE, "Cache-Control: Public,max-age=60\r\n", Always),
    asked("credentials, s-maxage", ALICE, "Cache-Control: s-maxage=60\r\n", Always),
    asked(
        "credentials, s-maxage that is not a number",
        ALICE,
        "Cache-Control: s-maxage=x, max-age=60\r\n",
        Never,
    ),
    asked("credentials, must-revalidate", ALICE, "Cache-Control: must-revalidate, max-age=60\r\n", Always),
    asked("credentials, public in a quote", ALICE, "Cache-Control: x=\", public\", max-age=60\r\n", Never),
    asked("credentials, private and public", ALICE, "Cache-Control: private, public, max-age=60\r\n", Never),
    asked("credentials, Expires alone", ALICE, "Expires: Thu, 01 Jan 2099 00:00:00 GMT\r\n", Never),
    asked("a range that the upstream ignored", "Range: bytes=0-3\r\n", FRESH, Always),
    Row {
        name: "two with the same credentials",
        first: ("GET", ALICE),
        answer: (200, FRESH),
        second: ("GET", ALICE),
        reuse: Never,
    },
    Row {
        name: "HEAD has no body for GET",
        first: ("HEAD", ""),
        answer: (200, FRESH),
        second: ("GET", ""),
        reuse: Never,
    },
    Row {
        name: "GET is enough for HEAD",
        first: ("GET", ""),
        answer: (200, FRESH),
        second: ("HEAD", ""),
        reuse: Always,
    },
    Row {
        name: "POST is not a GET",
        first: ("POST", ""),
        answer: (200, FRESH),
        second: ("GET", ""),
        reuse: Never,
    },
    Row {
        name: "GET is not a POST",
        first: ("GET", ""),
        answer: (200, FRESH),
        second: ("POST", ""),
        reuse: Never,
    },
    Row {
        name: "PUT is not kept",
        first: ("PUT", ""),
        answer: (200, FRESH),
        second: ("PUT", ""),
        reuse: Never,
    },
    Row {
        name: "Vary with another value",
        first: ("GET", "Accept-Language: de\r\n"),
        answer: (200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n"),
        second: ("GET", "Accept-Language: fr\r\n"),
        reuse: Never,
    },
    Row {
        name: "Vary with and without a field",
        first: ("GET", "Accept-Language: de\r\n"),
        answer: (200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n"),
        second: ("GET", ""),
        reuse: Never,
    },
    Row {
        name: "Vary with the same value",
        first: ("GET", "Accept-Language: de\r\n"),
        answer: (200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n"),
        second: ("GET", "Accept-Language: de\r\n"),
        reuse: Always,
    },
    Row {
        name: "public answers are for those with credentials, too",
        first: ("GET", ""),
        answer: (200, FRESH),
        second: ("GET", ALICE),
        reuse: Always,
    },
];

/// Strategies, each at its own path.
const STRATEGIES: [&str; 3] = ["memory", "followed", "disk"];

/// Answers with the fields of the row in the path, and with a number that no other answer has.
fn upstream() -> Upstream {
    let served = std::sync::Arc::new(AtomicUsize::new(0));
    let step = Upstream::answer(move |request: &Message| {
        let number = served.fetch_add(1, Ordering::Relaxed);
        let row = request.target().rsplit('/').next().and_then(|row| row.parse::<usize>().ok());
        let (status, fields) = match row.and_then(|row| ROWS.get(row)) {
            Some(row) => row.answer,
            None => (200, request.header("X-Answer").unwrap_or("X-None: 1")),
        };
        let fields = if fields.is_empty() || fields.ends_with("\r\n") {
            fields.to_owned()
        } else {
            format!("{fields}\r\n")
        };
        let body = if request.method() == "HEAD" || status == 304 {
            String::new()
        } else {
            format!("answer {number}")
        };
        let length =
            if status == 304 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        format!("HTTP/1.1 {status} Status\r\n{fields}{length}\r\n{body}").into_bytes()
    });
    let cut_short =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 99\r\n\r\nthe first part".to_vec();
    Upstream::with(move |request| match request.target().contains("/cut-short") {
        true => Behaviour { read_body: true, steps: vec![Step::Send(cut_short.clone()), Step::Close] },
        false => Behaviour { read_body: true, steps: vec![step.clone()] },
    })
}

fn gateway(upstream: &Upstream, more: Value) -> Gateway {
    let zones = "  proxy_cache: {cache_ttl: 60s, zones: [{name: in_memory, memory_size: 10m}, \
                 {name: on_disk, memory_size: 10m, disk_size: 100m, disk_path: data/cache, cache_levels: \"1:2\"}]}\n";
    let config = YAML_PROVIDER.replace("apisix:\n", &format!("apisix:\n{zones}"));
    let routes: Vec<Value> = STRATEGIES
        .iter()
        .map(|strategy| {
            let disk = *strategy == "disk";
            let mut cache = json!({
                "cache_strategy": if disk { "disk" } else { "memory" },
                "cache_zone": if disk { "on_disk" } else { "in_memory" },
                "cache_control": *strategy == "followed",
                "cache_method": ["GET", "HEAD", "POST"],
                "cache_http_status": [200, 206, 299, 304],
            });
            for (name, value) in more.as_object().into_iter().flatten() {
                cache[name] = value.clone();
            }
            json!({"id": strategy, "uri": format!("/{strategy}/*"), "plugins": {"proxy-cache": cache},
                   "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}})
        })
        .collect();
    Gateway::start(&config, Some(&json!({ "routes": routes }).to_string()))
}

fn ask(gateway: &Gateway, method: &str, path: &str, fields: &str) -> Message {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: 0\r\n\r\n");
    let mut client = gateway.client();
    client.send(request.as_bytes()).expect("sent");
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// Whether the cache answered. The disk is slow to learn of variants: what must come of it is asked for again.
fn is_reused(
    gateway: &Gateway,
    upstream: &Upstream,
    second: (&str, &str),
    path: &str,
    patient: bool,
) -> bool {
    let start = Instant::now();
    loop {
        upstream.take();
        let answer = ask(gateway, second.0, path, second.1);
        let hit = answer.header("Apisix-Cache-Status") == Some("HIT");
        assert_eq!(hit, upstream.take().is_empty(), "{path}: what the header says is so");
        if hit || !patient || start.elapsed() > PATIENCE {
            return hit;
        }
    }
}

#[test]
fn what_must_not_be_stored_or_used_again() {
    let upstream = upstream();
    let gateway = gateway(&upstream, json!({}));
    let mut wrong = Vec::new();
    for strategy in STRATEGIES {
        for (number, row) in ROWS.iter().enumerate() {
            let path = format!("/{strategy}/{number}");
            let expected = match row.reuse {
                Always => true,
                Never => false,
                Said => strategy != "followed",
            };
            let answer = ask(&gateway, row.first.0, &path, row.first.1);
            assert_eq!(answer.status(), row.answer.0, "{path}: {}", row.name);
            // Elsewhere a second attempt would find what the first one has brought.
            let patient = expected && row.name.starts_with("Vary");
            if is_reused(&gateway, &upstream, row.second, &path, patient) != expected {
                wrong.push(format!("{strategy}: {}, {:?} expected", row.name, row.reuse));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), 3 * ROWS.len(), wrong.join("\n"));
}

/// Section 4.4: a request that may have changed something takes away what was stored before it.
#[test]
fn changes_invalidate() {
    let upstream = upstream();
    let gateway = gateway(&upstream, json!({"cache_method": ["GET"]}));
    for strategy in STRATEGIES {
        for (method, fields, gone) in [
            ("POST", "", true),
            ("PUT", "", true),
            ("DELETE", "", true),
            ("PATCH", "", true),
            ("OPTIONS", "", false),
        ] {
            let path = format!("/{strategy}/{method}");
            let keep = "X-Answer: Cache-Control: max-age=60\r\n";
            ask(&gateway, "GET", &path, keep);
            assert!(is_reused(&gateway, &upstream, ("GET", keep), &path, false), "{path}");
            assert_eq!(ask(&gateway, method, &path, fields).status(), 200, "{path}");
            // The file goes behind the answer's back.
            let start = Instant::now();
            let no_more = ("GET", "X-Answer: Cache-Control: no-store\r\n");
            let mut reused = is_reused(&gateway, &upstream, no_more, &path, false);
            while reused && gone && start.elapsed() < PATIENCE {
                reused = is_reused(&gateway, &upstream, no_more, &path, false);
            }
            assert_eq!(reused, !gone, "{path}");
        }
    }
}

/// Sections 3.3 and 4.2.4: half an answer is none, and what is stale is not used, also when there is nothing else.
#[test]
fn neither_halves_nor_stale_answers() {
    let upstream = upstream();
    let gateway = gateway(&upstream, json!({}));
    for strategy in STRATEGIES {
        upstream.take();
        let path = format!("/{strategy}/cut-short");
        for _ in 0..2 {
            let mut client = gateway.client();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sent");
            let _ = client.to_close();
        }
        assert_eq!(upstream.wait_for(2).len(), 2, "{path}");
        upstream.take();

        let path = format!("/{strategy}/stale");
        let short = "X-Answer: Cache-Control: max-age=1, must-revalidate\r\n";
        ask(&gateway, "GET", &path, short);
        assert!(is_reused(&gateway, &upstream, ("GET", short), &path, false), "{path}");
        let start = Instant::now();
        loop {
            let answer = ask(&gateway, "GET", &path, "X-Answer: Cache-Control: no-store\r\n");
            match answer.header("Apisix-Cache-Status") {
                Some("HIT") if start.elapsed() < PATIENCE => {
                    let age = answer.header("Age").and_then(|age| age.parse::<u64>().ok());
                    assert!(age.is_some_and(|age| age <= 1), "{path}: {age:?}");
                }
                status => {
                    assert_eq!(status, Some("EXPIRED"), "{path}");
                    break;
                }
            }
        }
    }
}

/// What the client may ask of the cache, where `cache_control` says that it is heard.
#[test]
fn clients_are_heard() {
    let upstream = upstream();
    let gateway = gateway(&upstream, json!({}));
    let path = "/followed/asked";
    let keep = "X-Answer: Cache-Control: max-age=60\r\n";
    ask(&gateway, "GET", path, keep);
    for (fields, status) in [
        ("", "HIT"),
        ("Cache-Control: no-cache\r\n", "BYPASS"),
        ("Cache-Control: no-store\r\n", "BYPASS"),
        ("Pragma: no-cache\r\n", "BYPASS"),
        ("Pragma: no-cache\r\nCache-Control: max-age=50\r\n", "HIT"),
        ("Cache-Control: only-if-cached\r\n", "HIT"),
    ] {
        let answer = ask(&gateway, "GET", path, &format!("{keep}{fields}"));
        assert_eq!(answer.header("Apisix-Cache-Status"), Some(status), "{fields:?}");
    }
    assert_eq!(ask(&gateway, "GET", "/followed/none", "Cache-Control: only-if-cached\r\n").status(), 504);
}

/// `$request_uri` is decoded: a path with `%3F` is not one with a query, nor is `%2F` a slash.
#[test]
fn escapes_make_other_keys() {
    let upstream = upstream();
    let gateway = gateway(&upstream, json!({}));
    let keep = "X-Answer: Cache-Control: max-age=60\r\n";
    for strategy in STRATEGIES {
        for (stored, asked) in
            [("a%3fx=1", "a?x=1"), ("b?x=1", "b%3fx=1"), ("c%2fd", "c/d"), ("e%2bf", "e+f")]
        {
            let (stored, asked) = (format!("/{strategy}/{stored}"), format!("/{strategy}/{asked}"));
            ask(&gateway, "GET", &stored, keep);
            assert!(is_reused(&gateway, &upstream, ("GET", keep), &stored, true), "{stored}");
            assert!(!is_reused(&gateway, &upstream, ("GET", keep), &asked, false), "{asked}");
        }
    }
}

/// The body of a `GET` may decide the answer, and is in no key.
#[test]
fn answers_to_bodies_are_not_kept() {
    let upstream = upstream();
    let gateway = gateway(&upstream, json!({}));
    let keep = "X-Answer: Cache-Control: max-age=60\r\n";
    // The last field of `ask` and the empty line behind it become the body.
    let with_body = format!("{keep}Content-Length: 21\r\n\r\n");
    for strategy in STRATEGIES {
        let path = format!("/{strategy}/body");
        ask(&gateway, "GET", &path, &with_body);
        assert!(!is_reused(&gateway, &upstream, ("GET", keep), &path, false), "{strategy}");
        assert!(is_reused(&gateway, &upstream, ("GET", keep), &path, true), "{strategy}");
        assert!(!is_reused(&gateway, &upstream, ("GET", &with_body), &path, false), "{strategy}");
    }
}

/// `$host` has no port, and upstreams see the field as it is sent.
#[test]
fn ports_make_other_keys() {
    let upstream = upstream();
    let gateway = gateway(&upstream, json!({}));
    let from = |host: &str, path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Answer: Cache-Control: max-age=60\r\n\r\n");
        let answer = gateway.client().request(&request).expect("an answer");
        (answer.header("Apisix-Cache-Status").map(str::to_owned), answer.body_text())
    };
    for strategy in STRATEGIES {
        let path = format!("/{strategy}/ports");
        let answers: Vec<_> =
            ["a.example:8001", "a.example:8002", "a.example"].map(|host| from(host, &path)).into();
        for (index, (status, _)) in answers.iter().enumerate() {
            assert_eq!(status.as_deref(), Some("MISS"), "{strategy} {index}: {answers:?}");
        }
        for (host, first) in [("A.example:8001", 0), ("a.example:8002", 1), ("A.Example", 2)] {
            let (status, body) = from(host, &path);
            assert_eq!((status.as_deref(), &body), (Some("HIT"), &answers[first].1), "{strategy} {host}");
        }
    }
    // Who leaves the host out of the key means all hosts.
    let gateway = self::gateway(&upstream, json!({"cache_key": ["$request_uri"]}));
    let ask = |host: &str| {
        let request =
            format!("GET /memory/x HTTP/1.1\r\nHost: {host}\r\nX-Answer: Cache-Control: max-age=60\r\n\r\n");
        let answer = gateway.client().request(&request).expect("an answer");
        answer.header("Apisix-Cache-Status").map(str::to_owned)
    };
    assert_eq!((ask("a.example:8001").as_deref(), ask("b.example").as_deref()), (Some("MISS"), Some("HIT")));
}

/// A key with the credentials in it is one client's own; a name that anybody can write is not.
#[test]
fn keys_that_tell_clients_apart() {
    let upstream = upstream();
    for (part, own) in [("$http_authorization", true), ("$remote_user", false)] {
        let gateway = gateway(&upstream, json!({"cache_key": ["$request_uri", part]}));
        for strategy in STRATEGIES {
            let path = format!("/{strategy}/key");
            let keep = "X-Answer: Cache-Control: max-age=60\r\nAuthorization: Basic YWxpY2U6YQ==\r\n";
            ask(&gateway, "GET", &path, keep);
            assert_eq!(is_reused(&gateway, &upstream, ("GET", keep), &path, false), own, "{part} {strategy}");
            let guessed = "X-Answer: Cache-Control: max-age=60\r\nAuthorization: Basic YWxpY2U6Yg==\r\n";
            assert!(!is_reused(&gateway, &upstream, ("GET", guessed), &path, false), "{part} {strategy}");
        }
    }
}

/// Who sent a request is not always said in `Authorization`. A consumer's own key keeps consumers apart, not the people
/// behind one consumer.
#[test]
fn identities_without_authorization() {
    let service = Upstream::with(|_| Behaviour {
        read_body: true,
        steps: vec![Upstream::answer(|request| {
            let user = request.header("Cookie").unwrap_or_default().to_owned();
            format!("HTTP/1.1 200 OK\r\nX-User: {user}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        })],
    });
    let upstream = upstream();
    let cache = json!({"cache_strategy": "memory", "cache_zone": "in_memory", "cache_http_status": [200]});
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |id: &str, plugin: &str, conf: Value| json!({"id": id, "uri": format!("/{id}"), "upstream": node, "plugins": {plugin: conf, "proxy-cache": cache}});
    let auth = json!({"uri": format!("http://{}", service.address), "request_headers": ["Cookie"]});
    let mut named = auth.clone();
    named["upstream_headers"] = json!(["X-User"]);
    let routes = json!([
        route("jwt", "jwt-auth", json!({})),
        route("hidden", "jwt-auth", json!({"hide_credentials": true})),
        route("named", "forward-auth", named),
        route("allowed", "forward-auth", auth),
    ]);
    let consumer = json!({"username": "shop", "plugins": {"jwt-auth": {"key": "shop", "secret": "a secret of the shop"}}});
    let config = YAML_PROVIDER
        .replace("apisix:\n", "apisix:\n  proxy_cache: {zones: [{name: in_memory, memory_size: 10m}]}\n");
    let gateway =
        Gateway::start(&config, Some(&json!({"routes": routes, "consumers": [consumer]}).to_string()));
    let cookie = |person: &str| {
        let token =
            token(&json!({"alg": "HS256"}), &json!({"key": "shop", "sub": person}), b"a secret of the shop");
        format!("Cookie: jwt={token}\r\n")
    };
    // Only where the upstream cannot tell one from the other, neither need the cache.
    for (path, reused) in [("/jwt", false), ("/hidden", true), ("/named", false), ("/allowed", false)] {
        assert_eq!(ask(&gateway, "GET", path, &cookie("alice")).status(), 200, "{path}");
        let bob = cookie("bob");
        assert_eq!(is_reused(&gateway, &upstream, ("GET", &bob), path, false), reused, "{path}");
    }
}

#[test]
fn a_zone_of_another_strategy_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for plugin in ["proxy-cache", "graphql-proxy-cache"] {
        for (strategy, zone, status) in [
            ("memory", "memory_cache", 200..=201),
            ("disk", "memory_cache", 400..=400),
            ("disk", "disk_cache_one", 200..=201),
        ] {
            let conf = json!({"cache_strategy": strategy, "cache_zone": zone});
            let route = json!({"uri": "/*", "plugins": {plugin: conf}}).to_string();
            let (found, answer) = gateway.admin("PUT", &format!("/apisix/admin/routes/{plugin}"), &route);
            assert!(status.contains(&found), "{plugin} {strategy} {zone}: {answer}");
            assert_eq!(answer.contains("cache_zone for cache_strategy"), found == 400, "{answer}");
        }
    }
}
