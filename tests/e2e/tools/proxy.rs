//! `tidegate proxy`: what it serves, what it prints, and that the two are the same.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use tidegate_testkit::gateway::binary;
use tidegate_testkit::process::Process;
use tidegate_testkit::{Client, Upstream, free_port};

struct Proxy {
    process: Process,
    address: SocketAddr,
}

fn proxy(to: &str, options: &[&str]) -> Proxy {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new(binary());
    // A port alone is one of 127.0.0.1.
    command.args(["proxy", "--to", to, "--listen", &address.port().to_string()]).args(options);
    let mut process = Process::start("tidegate proxy", &mut command);
    process.wait_for_port(address);
    process.wait_for_output(if options.contains(&"--auth") { ": curl" } else { " -> http" });
    Proxy { process, address }
}

/// The status of a request with these fields, and the body.
fn ask(address: SocketAddr, fields: &str) -> (u16, String) {
    let mut client = Client::connect(address).expect("connects");
    let answer =
        client.request(&format!("GET /echo HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).expect("an answer");
    (answer.status(), answer.body_text())
}

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(binary()).args(words).output().expect("runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// What stands behind a word in what was printed.
fn after<'t>(text: &'t str, word: &str) -> &'t str {
    let (_, rest) = text.split_once(word).unwrap_or_else(|| panic!("{text:?} has no {word:?}"));
    rest.split([' ', ',', ':', '\n']).next().unwrap_or_default()
}

#[test]
fn it_proxies_on_this_machine_only_and_says_where() {
    let upstream = Upstream::start();
    let mut proxy = proxy(&format!("http://{}", upstream.address), &[]);
    assert!(ask(proxy.address, "X-A: 1\r\n").1.contains("\r\nX-A: 1\r\n"));
    let said = proxy.process.output();
    assert!(
        said.contains(&format!("tidegate: http://{} -> http://{}", proxy.address, upstream.address)),
        "{said}"
    );
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], proxy.address.port()));
    assert!(std::net::TcpStream::connect(elsewhere).is_err(), "it listens at other addresses");
    proxy.process.wait_for_output("\"GET /echo HTTP/1.1\" 200 ");
    let answer =
        Client::connect(proxy.address).expect("connects").get("h", "/status/404").expect("an answer");
    assert!(answer.header("server").is_none_or(|name| !name.contains("APISIX")), "{answer:?}");
    assert!(proxy.process.stop().success());
}

#[test]
fn it_proxies_to_addresses_of_version_6_and_listens_there() {
    let server = format!("[::1]:{}", free_port());
    let mut echo = Command::new(binary());
    let echo = Process::start("tidegate echo", echo.args(["echo", "--listen", &server]));
    echo.wait_for_output("echo on ");
    let to = format!("http://{server}");
    let proxy = proxy(&to, &[]);
    let (status, seen) = ask(proxy.address, "X-A: 1\r\n");
    assert!(status == 200 && seen.contains("X-A: 1"), "{status} {seen}");
    assert!(proxy.process.output().contains(&format!("-> {to}\n")), "{}", proxy.process.output());
    let (_, printed, _) = run(&["proxy", "--to", &to, "--print"]);
    assert!(printed.contains("'[::1]'") || printed.contains("\"[::1]\""), "{printed}");

    let own: SocketAddr = format!("[::1]:{}", free_port()).parse().expect("an address");
    let mut command = Command::new(binary());
    let command = command.args(["proxy", "--to", &to, "--listen", &own.to_string()]);
    let mut there = Process::start("tidegate proxy", command);
    there.wait_for_port(own);
    assert_eq!(ask(own, "").0, 200);
}

#[test]
fn its_pages_and_headers_have_its_own_name() {
    let proxy = proxy(&format!("http://127.0.0.1:{}", free_port()), &[]);
    let answer = Client::connect(proxy.address).expect("connects").get("h", "/").expect("an answer");
    let page = answer.body_text();
    assert_eq!(answer.status(), 502);
    assert!(page.contains("<p>Tidegate</p>") && !page.contains("APISIX"), "{page}");
    assert!(answer.header("server").is_some_and(|name| name.starts_with("Tidegate/")), "{answer:?}");
    // Both logs are the terminal's.
    proxy.process.wait_for_output("nothing listens there: start the server");
}

#[test]
fn keys_and_passwords_are_made_shown_and_asked_for() {
    let upstream = Upstream::start();
    let to = format!("http://{}", upstream.address);
    let keyed = proxy(&to, &["--auth", "key"]);
    let said = keyed.process.output();
    let key = after(&said, "tidegate: key ");
    assert!(key.len() >= 16, "{said}");
    assert_eq!(ask(keyed.address, "").0, 401);
    assert_eq!(ask(keyed.address, "apikey: wrong\r\n").0, 401);
    let (status, seen) = ask(keyed.address, &format!("apikey: {key}\r\n"));
    assert!(status == 200 && !seen.contains(key), "the server behind it sees the key: {seen}");
    let basic = proxy(&to, &["--auth", "basic"]);
    let said = basic.process.output();
    let password = after(&said, "password ");
    let url = format!("http://{}/echo", basic.address);
    let status = |user: &str| {
        let arguments = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", user, &url];
        let output = Command::new("curl").args(arguments).output().expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(status("user:wrong"), "401");
    assert_eq!(status(&format!("user:{password}")), "200");
}

#[test]
fn rates_and_origins() {
    let upstream = Upstream::start();
    let proxy = proxy(&format!("http://{}", upstream.address), &["--rate", "2/h", "--cors"]);
    let mut client = Client::connect(proxy.address).expect("connects");
    let mut ask = || {
        client.request("GET /echo HTTP/1.1\r\nHost: h\r\nOrigin: http://a.test\r\n\r\n").expect("an answer")
    };
    let first = ask();
    assert_eq!((first.status(), first.header("access-control-allow-origin")), (200, Some("*")));
    assert_eq!((ask().status(), ask().status()), (200, 429));
    // Whoever says to be another client is the same one.
    let another = "GET /echo HTTP/1.1\r\nHost: h\r\nX-Real-IP: 9.9.9.9\r\n\r\n";
    assert_eq!(client.request(another).expect("an answer").status(), 429);
}

#[test]
fn tls_with_names_of_this_machine() {
    let upstream = Upstream::start();
    let proxy = proxy(&format!("http://{}", upstream.address), &["--tls", "self-signed"]);
    let port = proxy.address.port();
    for url in [format!("https://localhost:{port}/echo"), format!("https://127.0.0.1:{port}/echo")] {
        let output = Command::new("curl").args(["-sSk", "-m", "20", &url]).output().expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.starts_with("GET /echo HTTP/1.1"),
            "{url}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let (status, page) = ask(proxy.address, "");
    assert!(status == 400 && page.contains("HTTPS"), "{page}");
    let said = proxy.process.output();
    assert!(said.contains(&format!("tidegate: https://127.0.0.1:{port} -> ")), "{said}");
}

/// Behind HTTPS servers are found by name.
#[test]
fn the_printed_configuration_is_the_one_that_is_served() {
    let upstream = Upstream::start();
    let (to, port) = (format!("http://{}", upstream.address), free_port().to_string());
    let options = [
        "--to",
        &to,
        "--listen",
        &port,
        "--auth",
        "key",
        "--rate",
        "100/s",
        "--cors",
        "--tls",
        "self-signed",
    ];
    let (code, printed, said) = run(&[&["proxy", "--print"][..], &options].concat());
    assert!(code == Some(0) && said.is_empty(), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let key = serve_printed(folder.path(), &printed);
    let mut command = Command::new(binary());
    let mut process = Process::start("tidegate", command.arg("run").arg("--prefix").arg(folder.path()));
    process.wait_for_port(([127, 0, 0, 1], port.parse().expect("a port")).into());
    let ask = |fields: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sk", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}"]).args(fields);
        let output = curl.arg(format!("https://localhost:{port}/echo")).output().expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(ask(&[]), "401");
    assert_eq!(ask(&["-H", &format!("apikey: {key}")]), "200");
    assert!(process.stop().success());
    let (code, printed, _) = run(&["proxy", "--print", "--to", "https://example.com"]);
    assert!(
        code == Some(0) && printed.contains("pass_host: node") && printed.contains("port: 443"),
        "{printed}"
    );
}

/// Follows the words at the top of what was printed; the key in it.
fn serve_printed(folder: &Path, printed: &str) -> String {
    let config: String = printed
        .lines()
        .take_while(|line| line.starts_with('#'))
        .skip_while(|line| *line != "#")
        .map(|line| line.trim_start_matches(['#', ' ']).to_owned() + "\n")
        .collect();
    fs::create_dir(folder.join("conf")).expect("a folder");
    fs::write(folder.join("conf/config.yaml"), config).expect("written");
    fs::write(folder.join("conf/apisix.yaml"), printed).expect("written");
    let (code, said, problems) = run(&["test", "--prefix", &folder.display().to_string()]);
    assert!(code == Some(0), "{said}{problems}\n{printed}");
    let (_, consumer) = printed.split_once("- username: user").expect("a consumer");
    let key = consumer.lines().find_map(|line| line.trim().strip_prefix("key: "));
    key.expect("a key").trim_matches(['"', '\'']).to_owned()
}

#[test]
fn bad_values_are_refused_before_a_port_opens() {
    for (words, reason) in [
        (&["--to", "localhost:3000"][..], "http://127.0.0.1:3000"),
        (&["--to", "http://a/path"], "rewrite paths"),
        (&["--to", "http://a:99999"], "65535"),
        (&["--to", "http://a", "--rate", "many"], "100/s"),
        (&["--to", "http://a", "--auth", "none"], "key, basic"),
        (&["--to", "http://a", "--tls", "on"], "self-signed"),
        (&["--to", "http://a", "--listen", "0.0.0.0"], "127.0.0.1:8080"),
        (&["--to", "http://a", "--listen", "0"], "--listen: the port is a number from 1"),
        (&["--to", "http://127.0.0.1:8087", "--listen", "8087"], "it listens there itself"),
        (&["--to", "http://localhost:8087", "--listen", "0.0.0.0:8087"], "it listens there itself"),
        (&[], "--to"),
    ] {
        let (code, printed, said) = run(&[&["proxy"][..], words].concat());
        assert!(code == Some(2) && said.contains(reason) && printed.is_empty(), "{words:?}: {code:?} {said}");
    }
    let taken = Upstream::start();
    let (code, _, said) = run(&["proxy", "--to", "http://a.test", "--listen", &taken.address.to_string()]);
    assert!(code == Some(1) && said.contains("choose another port with --listen"), "{said}");
    assert!(!said.contains("config.yaml") && !said.contains("node_listen"), "{said}");
}

/// As the terminal or the ssh session sends it when it is closed; no configuration can be reloaded.
#[test]
fn it_ends_with_its_terminal() {
    let upstream = Upstream::start();
    let mut proxy = proxy(&format!("http://{}", upstream.address), &[]);
    proxy.process.signal(Signal::HUP);
    assert!(proxy.process.wait_for_exit().success());
    assert!(std::net::TcpStream::connect(proxy.address).is_err(), "it still listens");
}

/// Who writes `nohup` in front has it go on.
#[test]
fn it_outlives_its_terminal_with_nohup() {
    let upstream = Upstream::start();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new("nohup");
    command.arg(binary()).args(["proxy", "--to", &format!("http://{}", upstream.address)]);
    command.args(["--listen", &address.to_string()]);
    let mut process = Process::start("nohup", &mut command);
    process.wait_for_port(address);
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("a process");
    let ignored = after(&status, "SigIgn:\t");
    let ignored = u64::from_str_radix(ignored, 16).expect("a mask");
    assert_eq!(ignored & 1, 1, "SIGHUP is still ignored");
    process.signal(Signal::HUP);
    assert_eq!(ask(address, "").0, 200);
    assert!(process.stop().success());
}
