//! TLS toward clients: certificates by server name, and certificates of clients. `curl` is the client.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tidegate_testkit::free_port;
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};

/// What curl prints for a connection without an answer.
const NO_ANSWER: &str = "000";

#[test]
fn certificates_are_found_by_name_and_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Of another authority.
    client_certificate(folder.path());
    for end in ["pem", "key"] {
        let (from, to) = (format!("client.{end}"), format!("stranger.{end}"));
        fs::rename(folder.path().join(from), folder.path().join(to)).expect("a stranger's");
    }
    let client_ca = client_certificate(folder.path());
    let port = free_port();
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}]}}"));
    let gateway = Gateway::start(&config, Some(&resources(&client_ca)));

    let check = |name: &str, path: &str, more: &[&str], expected: &str| {
        let output = Command::new("curl")
            .args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "5"])
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .args(more)
            .arg(format!("https://{name}:{port}{path}"))
            .current_dir(folder.path())
            .output()
            .expect("curl runs");
        let status = String::from_utf8_lossy(&output.stdout);
        assert_eq!(status, expected, "{name}{path} {more:?}\n{}", gateway.error_log());
    };
    let with_certificate = &["--cert", "client.pem", "--key", "client.key"][..];
    check("plain.test", "/", &[], "200");
    check("x.wild.test", "/", &[], "200");
    check("x.y.wild.test", "/", &[], NO_ANSWER);
    check("unknown.test", "/", &[], NO_ANSWER);
    // The handshake succeeds, so that the client can be told what is missing.
    check("asks.test", "/", &[], "400");
    check("asks.test", "/", &["--http1.1"], "400");
    check("asks.test", "/", &["--cert", "stranger.pem", "--key", "stranger.key"], NO_ANSWER);
    check("asks.test", "/", with_certificate, "200");
    check("skips.test", "/open", &[], "200");
    check("skips.test", "/closed", &[], "400");
    check("skips.test", "/closed", with_certificate, "200");
    // The handshake's name may not lend its freedom to a host that asks for certificates.
    check("plain.test", "/", &["-H", "Host: asks.test"], "400");

    let page = Command::new("curl")
        .args([
            "-sk",
            "--resolve",
            &format!("asks.test:{port}:127.0.0.1"),
            &format!("https://asks.test:{port}/"),
        ])
        .output()
        .expect("curl runs");
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("<title>400 No required SSL certificate was sent</title>"), "{page}");
}

/// An address is not a server name, and clients send some all the same: the certificate for that address is found.
#[test]
fn a_certificate_is_found_by_address() {
    let port = free_port();
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}]}}"));
    let resources = resources("").replace("plain.test", "127.0.0.1");
    let resources =
        resources.lines().filter(|line| !line.contains("client: {")).collect::<Vec<_>>().join("\n");
    let gateway = Gateway::start(&config, Some(&resources));
    let output = Command::new("curl")
        .args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", &format!("https://127.0.0.1:{port}/")])
        .output()
        .expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "200", "{}", gateway.error_log());
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", "127.0.0.1"])
        .stdin(Stdio::null())
        .output()
        .expect("openssl runs");
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("BEGIN CERTIFICATE") && !failed.contains("alert"), "{said}{failed}");
}

fn resources(client_ca: &str) -> String {
    let client = format!("client: {{ca: {}}}", quoted(client_ca));
    let skipping = format!("client: {{ca: {}, skip_mtls_uri_regex: [\"/open.*\"]}}", quoted(client_ca));
    let mut text =
        "routes:\n- {id: 1, uri: \"/*\", plugins: {mocking: {response_example: fine}}}\nssls:\n".to_owned();
    let servers =
        [("plain.test", ""), ("*.wild.test", ""), ("asks.test", &*client), ("skips.test", &*skipping)];
    for (at, (name, client)) in servers.into_iter().enumerate() {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let cert = params.self_signed(&key).expect("a certificate").pem();
        let (cert, key) = (quoted(&cert), quoted(&key.serialize_pem()));
        text += &format!("- {{id: {at}, sni: \"{name}\", cert: {cert}, key: {key}, {client}}}\n");
    }
    text
}

/// A YAML string in double quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\n', "\\n"))
}

/// Writes client.pem and client.key; returns the authority that signed.
fn client_certificate(folder: &Path) -> String {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().expect("a key");
    let ca = params.self_signed(&ca_key).expect("an authority").pem();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["client.test".to_owned()]).expect("a name");
    let cert = params.signed_by(&key, &issuer).expect("a certificate");
    fs::write(folder.join("client.pem"), cert.pem()).expect("client.pem");
    fs::write(folder.join("client.key"), key.serialize_pem()).expect("client.key");
    ca
}
