//! Users, tokens that expire, TLS in both directions, and members that fail while others are well.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tidegate_testkit::{Etcd, Gateway, Relay, eventually};

use super::{check_refused, config, metric, mock, status};

#[test]
fn tokens_are_renewed_and_passwords_checked() {
    let keys = tempfile::tempdir().expect("a temporary folder");
    let token = token_options(keys.path(), "3s");
    let etcd = Etcd::start_with("http", &["--auth-token", &token], &["--user", "root:rootpass"]);
    enable_users(&etcd);
    let with_user = |password: &str| {
        let user = format!("etcd: {{user: gateway, password: {password}, ");
        config(&etcd.url()).replace("etcd: {", &user)
    };
    let gateway = Gateway::start(&with_user("secret"), None);
    // The pauses are longer than a token lives: each of these writes meets an expired one.
    for round in 0..2 {
        let (code, answer) =
            gateway.admin("PUT", &format!("/apisix/admin/routes/{round}"), &mock("/secured", 201 + round));
        assert_eq!(code, 201, "{answer}");
        std::thread::sleep(std::time::Duration::from_millis(3100));
    }
    etcd.process.wait_for_output("Token is expired");
    // A change of users makes tokens old before they expire.
    for (id, user) in [("4", "one:pass"), ("5", "two:pass")] {
        assert_eq!(gateway.admin("PUT", &format!("/apisix/admin/routes/{id}"), &mock("/fresh", 201)).0, 201);
        etcd.control(&["user", "add", user]);
        let (code, answer) = gateway.admin("PUT", &format!("/apisix/admin/routes/{id}"), &mock("/old", 201));
        assert_eq!(code, 200, "{answer}");
    }
    etcd.put("/apisix/routes/3", &mock("/watched", 201));
    eventually("the watch goes on", || status(&gateway, "/watched") == 201);

    for (config, reason) in [
        (with_user("wrong"), "authentication failed, invalid user ID or password"),
        (config(&etcd.url()), "insufficient credentials code: 401"),
    ] {
        let refused = Gateway::start_unready(&config, None);
        check_refused(refused, reason);
    }
}

/// A root, and a user who may read and write what gateways do.
pub(super) fn enable_users(etcd: &Etcd) {
    for words in [
        &["user", "add", "root:rootpass"][..],
        &["role", "add", "root"],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "gateways"],
        &["role", "grant-permission", "gateways", "--prefix=true", "readwrite", "/apisix/"],
        &["user", "add", "gateway:secret"],
        &["user", "grant-role", "gateway", "gateways"],
        &["auth", "enable"],
    ] {
        etcd.control(words);
    }
}

/// Signed tokens. Those that are to expire live for three seconds: `exp` counts whole seconds (RFC 7519 section 4.1.4), so with one
/// second some expire before they are used. Keys from openssl, since etcd reads few forms of them.
pub(super) fn token_options(folder: &Path, lives: &str) -> String {
    let (private, public) = (folder.join("token.key"), folder.join("token.pub"));
    let run = |words: &[&str]| {
        let output = Command::new("openssl").args(words).output().expect("openssl runs");
        assert!(output.status.success(), "openssl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let (private, public) = (private.display().to_string(), public.display().to_string());
    run(&["genrsa", "-traditional", "-out", &private, "2048"]);
    run(&["rsa", "-in", &private, "-pubout", "-out", &public]);
    format!("jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl={lives}")
}

#[test]
fn certificates_are_shown_and_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
    let extra = ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"];
    let (client, client_key) = (path("client.pem"), path("client.key"));
    // etcdctl asks for 127.0.0.1, which is not in the certificate.
    let control = ["--insecure-skip-tls-verify", "--cert", &client, "--key", &client_key];
    let etcd = Etcd::start_with("https", &extra, &control);
    etcd.put("/apisix/routes/1", &mock("/tls", 201));
    let with = |tls: &str, ca: &str| {
        let trusted = format!("ssl: {{enable: false, ssl_trusted_certificate: {ca}}}");
        config(&etcd.url())
            .replace("etcd: {", &format!("etcd: {{tls: {{{tls}}}, "))
            .replace("ssl: {enable: false}", &trusted)
    };
    let shown = format!("cert: {client}, key: {client_key}");
    // The server's certificate is for another name than the address: SNI says which to check.
    let gateway = Gateway::start(&with(&format!("{shown}, sni: etcd.test"), &ca), None);
    assert_eq!(status(&gateway, "/tls"), 201);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/2", &mock("/two", 202)).0, 201);
    assert_eq!(status(&gateway, "/two"), 202);
    let gateway = Gateway::start(&with(&format!("{shown}, verify: false"), "system"), None);
    assert_eq!(status(&gateway, "/tls"), 201);

    for (tls, reason) in [
        (shown.clone(), "not valid for name"),
        (format!("{shown}, sni: other.test"), "not valid for name"),
        ("sni: etcd.test".to_owned(), "etcd cannot be used"),
        (format!("cert: {client}, key: /none, sni: etcd.test"), "cannot read /none"),
    ] {
        println!("{tls}");
        check_refused(Gateway::start_unready(&with(&tls, &ca), None), reason);
    }
}

pub(super) fn write_certificates(folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("written");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let ca = params.self_signed(&key).expect("a certificate");
    write("ca.pem", ca.pem());
    let issuer = Issuer::new(params, key);
    for (name, host) in [("server", "etcd.test"), ("client", "gateway.test")] {
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        // etcd's proxy takes only certificates without a common name toward etcd.
        params.distinguished_name = DistinguishedName::new();
        // etcd connects to itself with its own certificate.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        write(&format!("{name}.pem"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

#[test]
fn another_member_takes_over() {
    let etcd = Etcd::start();
    let (first, second) = (Relay::to(etcd.address), Relay::to(etcd.address));
    let dead = format!("http://127.0.0.1:{}", tidegate_testkit::free_port());
    let hosts = format!("'{dead}', 'http://{}', 'http://{}'", first.address, second.address);
    let gateway = Gateway::start(&config(&hosts), None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &mock("/one", 201)).0, 201);
    for (round, cut) in [&first, &second, &first].into_iter().enumerate() {
        cut.partition();
        let path = format!("/cut{round}");
        etcd.put("/apisix/routes/2", &mock(&path, 201));
        let took = eventually("the other member tells", || status(&gateway, &path) == 201);
        println!("one of two members cut off: caught up within {took:?}");
        eventually("etcd is reachable", || metric(&gateway, "apisix_etcd_reachable") == "1");
        let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/3", &mock("/three", 201));
        assert!(code < 300, "{answer}");
        cut.heal();
    }
    assert_eq!(status(&gateway, "/one"), 201);
}
