//! `valid_referers` of imported nginx configurations, and nginx itself beside them.

use std::net::SocketAddr;

use tidegate_testkit::{Gateway, client::Client, servers};

const LISTS: [&str; 13] = [
    "none good.example",
    "blocked good.example",
    "none blocked good.example *.wild.example",
    "none blocked server_names",
    ".both.example",
    "start.*",
    "www.start.*",
    "~\\.google\\.",
    "good.example ~^www\\.some",
    "good.example/galleries/",
    "*.wild.example a.wild.example/only/ ~wild",
    "none blocked server_names *.example.com example.* www.example.org/galleries/ ~\\.google\\.",
    "GOOD.example",
];

const REFERERS: [&str; 38] = [
    "",
    "-",
    "http://good.example/",
    "HTTP://GOOD.example",
    "https://good.example:8443/x",
    "https://good.example?x",
    "http://good.example@evil.example/",
    "http://evil.example/good.example",
    "http://good.example.evil.example/",
    "http://evilgood.example/",
    "http://sub.good.example/",
    "ftp://good.example/",
    "good.example/long",
    "xxxx://hidden by a proxy",
    "http://a.b",
    "http://a.bc",
    "https://a.b",
    "http://",
    "http://own.example/",
    "http://www.own.example/x",
    "http://sub.wild.example/",
    "http://a.wild.example/only/x",
    "http://a.wild.example/other",
    "http://wild.example/",
    "http://.wild.example/",
    "http://both.example/",
    "http://x.y.both.example/",
    "http://xboth.example/",
    "http://start.com/",
    "http://start./",
    "http://www.start.co.uk/",
    "http://www.google.com/search",
    "http://evil.example/.google.",
    "http://www.something/",
    "http://good.example/galleries/1",
    "http://good.example:80/galleries/1",
    "http://good.example/Galleries/1",
    "http://example.com/www.example.org/galleries/",
];

fn told(address: SocketAddr, host: &str, fields: &str) -> u16 {
    let mut client = Client::connect(address).expect("connects");
    let request = format!("GET /x HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
    client.request(&request).expect("an answer").status()
}

#[test]
fn referers_are_valid_where_nginx_says_so() {
    let mut servers = String::from("return 404; }");
    for (index, list) in LISTS.iter().enumerate() {
        let names = if list.contains("server_names") { "own.example *.own.example" } else { "" };
        let body = "{ if ($invalid_referer) { return 403; } return 204; }";
        servers += &format!(
            "\nserver {{ listen @ADDRESS@; server_name list{index}.example {names}; valid_referers {list}; location / {body} }}"
        );
    }
    // In nginx the last block is closed behind the text.
    let servers = servers.trim_end().strip_suffix('}').expect("it ends with a block").to_owned();
    let port = tidegate_testkit::free_port();
    let nginx = servers::nginx(&servers.replace("@ADDRESS@", &port.to_string()));
    let ours = format!("server {{ listen 80; {} }}", servers.replace("@ADDRESS@", "80"));
    let gateway = Gateway::start_from("nginx", &ours);
    let theirs = SocketAddr::from(([127, 0, 0, 1], port));
    let (mut wrong, mut valid) = (Vec::new(), 0);
    let long = format!("http://{}.wild.example/", "a".repeat(300));
    for (index, list) in LISTS.iter().enumerate() {
        let host = format!("list{index}.example");
        for referer in REFERERS.iter().copied().chain([long.as_str()]) {
            let fields = match referer {
                "" => String::new(),
                "-" => "Referer:\r\n".to_owned(),
                referer => format!("Referer: {referer}\r\n"),
            };
            let (their, our) = (told(theirs, &host, &fields), told(gateway.http, &host, &fields));
            valid += usize::from(their == 204);
            if their != our {
                wrong.push(format!("{list}: {referer:?}: nginx {their}, ours {our}"));
            }
        }
    }
    drop(nginx);
    assert!(valid > 50, "{valid} are valid");
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), gateway.process.output());
}

#[test]
fn a_list_that_is_not_understood_closes() {
    for list in ["good.example ~^a|b", "server_names", "$host.example"] {
        let text = format!(
            "server {{ listen 80; valid_referers {list}; location / {{ if ($invalid_referer) {{ return 403; }} return 204; }} }}"
        );
        let gateway = Gateway::start_from("nginx", &text);
        assert_eq!(told(gateway.http, "h", ""), 501, "{list}");
    }
}
