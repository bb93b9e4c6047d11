//! `etcd grpc-proxy` between gateways and etcd: it makes one watch toward etcd of those of many gateways.

use std::path::Path;
use std::process::Command;

use tidegate_testkit::process::Process;
use tidegate_testkit::{Etcd, Gateway, eventually, free_port};

use super::secured::{enable_users, token_options, write_certificates};
use super::{config, mock, status};

struct Proxy {
    process: Process,
    port: u16,
    words: Vec<String>,
}

impl Proxy {
    fn of(etcd: &Etcd) -> Proxy {
        Self::with(etcd, &[])
    }

    /// `extra` are more words for it.
    fn with(etcd: &Etcd, extra: &[String]) -> Proxy {
        let port = free_port();
        let mut words = vec![
            "grpc-proxy".to_owned(),
            "start".to_owned(),
            format!("--endpoints={}", etcd.url()),
            format!("--listen-addr=127.0.0.1:{port}"),
        ];
        words.extend_from_slice(extra);
        Proxy { process: Self::launch(port, &words), port, words }
    }

    fn launch(port: u16, words: &[String]) -> Process {
        let mut command = Command::new("etcd");
        command.args(words);
        let mut process = Process::start("etcd grpc-proxy", &mut command);
        process.wait_for_port(([127, 0, 0, 1], port).into());
        process
    }

    fn restart(&mut self) {
        self.process.signal_kill();
        self.process.wait_for_exit();
        self.process = Self::launch(self.port, &self.words);
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }
}

/// Whether a write by this gateway succeeds.
fn put(gateway: &Gateway, id: &str, path: &str) -> bool {
    let (code, answer) = gateway.admin("PUT", &format!("/apisix/admin/routes/{id}"), &mock(path, 201));
    if code >= 300 {
        eprintln!("{code} {answer}");
    }
    code < 300
}

fn everywhere(gateways: &[Gateway], path: &str) -> bool {
    gateways.iter().all(|gateway| status(gateway, path) == 201)
}

#[test]
fn gateways_follow_through_a_proxy_of_etcd() {
    let mut etcd = Etcd::start();
    let mut proxy = Proxy::of(&etcd);
    let config = config(&proxy.url("http"));
    let gateways = [Gateway::start(&config, None), Gateway::start(&config, None)];
    assert!(put(&gateways[0], "1", "/one"), "{}", gateways[0].error_log());
    eventually("a write through the proxy takes effect everywhere", || everywhere(&gateways, "/one"));
    // The proxy answers for etcd to the second watch, and says neither cluster nor term.
    for gateway in &gateways {
        let log = gateway.error_log();
        assert!(
            !log.contains("reading the whole configuration again") && !log.contains("reconnected"),
            "{log}"
        );
    }

    proxy.restart();
    eventually("a write after the proxy's return", || put(&gateways[0], "1", "/two"));
    eventually("it takes effect everywhere", || everywhere(&gateways, "/two"));

    etcd.kill();
    etcd.restart();
    etcd.put("/apisix/routes/2", &mock("/three", 201));
    etcd.compact();
    eventually("changes after etcd's return take effect everywhere", || everywhere(&gateways, "/three"));
    eventually("a write after etcd's return", || put(&gateways[0], "2", "/four"));
    eventually("it takes effect everywhere", || everywhere(&gateways, "/four"));
}

fn with_user(hosts: &str) -> String {
    config(hosts).replace("etcd: {", "etcd: {user: gateway, password: secret, ")
}

#[test]
fn gateways_log_in_through_a_proxy() {
    let keys = tempfile::tempdir().expect("a temporary folder");
    let token = token_options(keys.path(), "1h");
    let mut etcd = Etcd::start_with("http", &["--auth-token", &token], &["--user", "root:rootpass"]);
    enable_users(&etcd);
    let mut proxy = Proxy::of(&etcd);
    let config = with_user(&proxy.url("http"));
    let gateways = [Gateway::start(&config, None), Gateway::start(&config, None)];
    assert!(put(&gateways[0], "1", "/one"), "{}", gateways[0].error_log());
    eventually("a write through the proxy takes effect everywhere", || everywhere(&gateways, "/one"));
    proxy.restart();
    eventually("a write after the proxy's return", || put(&gateways[0], "1", "/two"));
    eventually("it takes effect everywhere", || everywhere(&gateways, "/two"));
    // Signed tokens outlive etcd.
    etcd.kill();
    etcd.restart();
    etcd.put("/apisix/routes/2", &mock("/three", 201));
    eventually("changes after etcd's return take effect everywhere", || everywhere(&gateways, "/three"));
    eventually("a write after etcd's return", || put(&gateways[1], "1", "/four"));
    eventually("it takes effect everywhere", || everywhere(&gateways, "/four"));

    let wrong = config.replace("secret", "wrong");
    super::check_refused(Gateway::start_unready(&wrong, None), "authentication failed");
}

/// etcd's proxy keeps the token with which its first watch began, and etcd's own tokens end with etcd: then the proxy has no watches.
#[test]
fn gateways_go_round_a_proxy_whose_token_etcd_has_forgotten() {
    let mut etcd = Etcd::start_with("http", &[], &["--user", "root:rootpass"]);
    enable_users(&etcd);
    let proxy = Proxy::of(&etcd);
    let gateway = Gateway::start(&with_user(&format!("{}, {}", proxy.url("http"), etcd.url())), None);
    assert!(put(&gateway, "1", "/one"), "{}", gateway.error_log());
    eventually("the write takes effect", || status(&gateway, "/one") == 201);
    etcd.kill();
    etcd.restart();
    etcd.put("/apisix/routes/1", &mock("/two", 201));
    eventually("changes after etcd's return take effect", || status(&gateway, "/two") == 201);
    eventually("a write after etcd's return", || put(&gateway, "1", "/three"));
    eventually("it takes effect", || status(&gateway, "/three") == 201);
}

#[test]
fn gateways_and_a_proxy_show_and_check_certificates() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
    let (client, client_key) = (path("client.pem"), path("client.key"));
    let etcd = Etcd::start_with(
        "https",
        &["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"],
        &["--insecure-skip-tls-verify", "--cert", &client, "--key", &client_key],
    );
    let extra = secure_proxy(folder.path());
    let mut proxy = Proxy::with(&etcd, &extra);
    let tls = |shown: &str| {
        let trusted = format!("ssl: {{enable: false, ssl_trusted_certificate: {ca}}}");
        config(&proxy.url("https"))
            .replace("etcd: {", &format!("etcd: {{tls: {{{shown}sni: etcd.test}}, "))
            .replace("ssl: {enable: false}", &trusted)
    };
    let config = tls(&format!("cert: {client}, key: {client_key}, "));
    let without = tls("");
    let gateways = [Gateway::start(&config, None), Gateway::start(&config, None)];
    assert!(put(&gateways[0], "1", "/one"), "{}", gateways[0].error_log());
    eventually("a write through the proxy takes effect everywhere", || everywhere(&gateways, "/one"));
    super::check_refused(Gateway::start_unready(&without, None), "etcd cannot be used");
    proxy.restart();
    etcd.put("/apisix/routes/1", &mock("/two", 201));
    eventually("changes after the proxy's return take effect everywhere", || everywhere(&gateways, "/two"));
}

/// What makes a proxy show a certificate to both sides, and ask gateways for theirs.
fn secure_proxy(folder: &Path) -> Vec<String> {
    let path = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    vec![
        path("cert", "client.pem"),
        path("key", "client.key"),
        path("cacert", "ca.pem"),
        // etcd's certificate is for a name.
        "--insecure-skip-tls-verify".to_owned(),
        path("cert-file", "server.pem"),
        path("key-file", "server.key"),
        path("trusted-ca-file", "ca.pem"),
    ]
}
