//! What whole files become.

use serde_json::Value;

use crate::{Imported, Options, Placement, Source, import};

fn imported(text: &str, listeners: Placement) -> Imported {
    let files = |name: &str| -> Result<String, String> { Err(format!("{name}: no such file")) };
    let options = Options { listeners, ..Options::default() };
    import(Source::Nginx, text, &files, options).expect("converted")
}

fn report(text: &str) -> String {
    imported(text, Placement::Written).report.text("f")
}

/// The routes that answer 501, with their texts.
fn closed(imported: &Imported) -> Vec<(String, String)> {
    let routes = imported.output.lists().find(|(name, _)| *name == "routes").map(|(_, routes)| routes);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let body = |route: &Value| text(route.pointer("/plugins/fault-injection/abort/body"));
    let all = routes.unwrap_or_default().iter().map(|route| (text(route.get("id")), body(route)));
    all.filter(|(_, body)| body.starts_with("closed by import")).collect()
}

#[test]
fn report_and_body_name_the_closed_route() {
    let text = "server { listen 80; server_name shop.example;
      location /blog/ { rewrite ^/blog/(.*)$ /api/posts/$1 last; proxy_pass http://127.0.0.1:1; }
      location /api/ { proxy_pass http://127.0.0.1:1; }
      location ~ \\.php$ { return 404; }
    }";
    for placement in [Placement::Written, Placement::Elsewhere] {
        let imported = imported(text, placement);
        let closed = closed(&imported);
        assert_eq!(closed.len(), 1, "{closed:?}");
        let (id, body) = &closed[0];
        assert_eq!(
            (id.as_str(), body.trim_end()),
            ("shop.example-blog-4bab-1", "closed by import (shop.example-blog-4bab-1)")
        );
        let report = imported.report.text("f");
        let why = "f:2: closed: location /blog/: in part; `rewrite ^/blog/(.*)$ /api/posts/$1 last`: which location takes \
                   `/api/posts/` is unknown: `location ~ \\.php$` of line 4 may take a part of such paths (shop.example-blog-4bab-1)";
        assert!(report.contains(why), "{report}");
    }
}

#[test]
fn a_handler_that_is_not_converted_is_the_reason() {
    let text = "server { listen 80; root /srv; autoindex on;
      location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }
      location /img/ { alias /srv/images/; }
    }";
    let report = report(text);
    let why = "f:2: closed: location ~ \\.php$: `fastcgi_pass 127.0.0.1:9000` of line 2 is not converted";
    assert!(report.contains(why), "{report}");
    assert!(report.contains("f:1: approximated: autoindex: the list"), "{report}");
}

#[test]
fn an_index_that_another_location_has_is_named_with_its_place() {
    let text = "server { listen 80; root /srv;
      location / { proxy_pass http://127.0.0.1:1; }
      location /blog/ { index index.php; }
      location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }
    }";
    let report = report(text);
    let why = "f:3: not supported: index: in `location /blog/` the file `index.php` is served by `location ~ \\.php$`: \
               directories without a file before it are 403";
    assert!(report.contains(why), "{report}");
}

/// The usual guard of hidden files takes no index whose directory it leaves alone.
#[test]
fn a_guard_of_hidden_files_leaves_the_index() {
    for guard in ["/\\.", "/\\.(?!well-known)", "/\\.(?!well-known).*"] {
        let text = format!(
            "server {{ listen 80; root /srv; index index.html .index; error_page 404 /e.html;
              location / {{ try_files $uri $uri/ =404; }}
              location ~ {guard} {{ deny all; }}
            }}"
        );
        let report = report(&text);
        assert!(!report.contains("the file `index.html`"), "{report}");
        assert!(report.contains("the file `.index` is served by"), "{report}");
        assert!(!report.contains("cannot be read"), "{report}");
    }
}

/// Its paths end with a dot and letters: no directory is there.
#[test]
fn a_place_that_no_directory_comes_to_has_no_index() {
    let text = "server { listen 80; root /srv;
      location = /auth { internal; proxy_pass http://127.0.0.1:1; }
      location / { proxy_pass http://127.0.0.1:1; }
      location ~* \\.(png|jpg)$ { expires 1d; }
    }";
    let report = report(text);
    assert!(!report.contains("not supported: index"), "{report}");
    // Without a line of its own, index is that of the place.
    let report = self::report(&text.replace("\\.(png|jpg)$", "^/img"));
    assert!(!report.contains("f:2: not supported: index"), "{report}");
}

#[test]
fn what_holds_for_every_file_is_named_once_and_keeps_none_from_being_exact() {
    let text = "server { listen 80; server_tokens off;
      location / { proxy_pass http://127.0.0.1:1; }
      location /a/ { proxy_pass http://127.0.0.1:1; }
    }";
    let imported = imported(text, Placement::Written);
    let report = imported.report.text("f");
    assert!(imported.report.is_exact(), "{report}");
    assert!(report.contains("f: 2 of 2 locations behave as in nginx\n"), "{report}");
    assert_eq!(report.matches("upstreams get X-Real-IP").count(), 1, "{report}");
    assert!(report.contains("f:1: no effect on answers: server_tokens: the field Server is the gateway's"));
}

#[test]
fn addresses_that_routes_answer_at_alone() {
    let text = "server { listen 80; return 200 public; }
      server { listen 127.0.0.1:8081; return 200 private; }
      server { listen 8082; return 200 other; }
      server { listen 443 ssl; return 200 secure; }
      server { listen 8443 ssl; return 200 secure; }";
    let ports = |placement| {
        let needed = imported(text, placement).needed;
        let of = |sockets: std::collections::BTreeSet<(std::net::IpAddr, u16)>| {
            sockets.into_iter().map(|(address, port)| format!("{address}:{port}")).collect::<Vec<_>>()
        };
        (of(needed.plain), of(needed.tls))
    };
    let (plain, tls) = ports(Placement::Elsewhere);
    assert_eq!(
        (plain.join(" "), tls.join(" ")),
        ("0.0.0.0:8082 127.0.0.1:8081".to_owned(), "0.0.0.0:8443".to_owned())
    );
    let (plain, tls) = ports(Placement::Running);
    assert_eq!((plain.len(), tls.len()), (3, 2));
    assert_eq!(ports(Placement::Written), (Vec::new(), Vec::new()));
    assert_eq!(ports(Placement::Replaced(None)), (Vec::new(), Vec::new()));
}

/// Of the answer to the question nginx takes the status, and no setting of fields and bodies counts.
#[test]
fn what_is_about_answers_does_not_close_what_is_asked() {
    let around = "gzip off; gzip_types text/css; gzip_min_length 100; gzip_proxied any; expires 1h; proxy_redirect off; \
                  proxy_cookie_path / /a; proxy_hide_header X-P; proxy_ignore_headers Vary; add_header X-A 1 always; \
                  limit_req zone=a; limit_req_status 429;";
    let text = |outer: &str, inner: &str| {
        format!(
            "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; {outer} server {{ listen 80;\n\
             location /a/ {{ auth_request /check; proxy_pass http://127.0.0.1:1; }}\n\
             location = /check {{ {inner} internal; proxy_pass http://127.0.0.1:2; }}\n}}"
        )
    };
    let said = report(&text(around, ""));
    assert!(!said.contains("closed: location /a/"), "{said}");
    // Here nginx counts questions.
    let said = report(&text("", "limit_req zone=a;"));
    let why = "f:2: closed: location /a/: `auth_request /check`: `limit_req zone=a` of line 3 is not converted in its location";
    assert!(said.contains(why), "{said}");
    let said = report(&text("", "secure_link $arg_a;"));
    assert!(said.contains("`secure_link $arg_a` of line 3 is not converted in its location"), "{said}");
}

#[test]
fn what_serves_nothing_is_the_reason() {
    let text = |own: &str| {
        format!(
            "server {{ listen 80; add_header X-A 1 always; expires 1h; gzip on; error_page 404 /x;\n\
             location /old {{ {own} rewrite ^/old/(.*)$ /new/$1 permanent; }} }}"
        )
    };
    let said = report(&text("add_header X-B 1;"));
    let why = "f:2: closed: location /old: in part; it has neither `proxy_pass` nor `return` nor a `root`: nginx serves the folder \
               `html` of its own prefix; give it `return 404;`, or a `root` with an absolute path";
    assert!(said.contains(why), "{said}");
    let said = report(&text("empty_gif;"));
    assert!(said.contains("in part; `empty_gif` of line 2 is not converted"), "{said}");
}
