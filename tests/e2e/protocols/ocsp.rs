//! OCSP stapling with openssl on both sides: the responder, and the client that looks at what is stapled.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use rcgen::{CustomExtension, SerialNumber};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::process::Process;
use tidegate_testkit::{eventually, free_port};

use crate::protocols::certs::{Authority, Pair, quoted};

/// `authorityInfoAccess` with an OCSP responder.
fn responder_extension(url: &str) -> CustomExtension {
    let tlv = |tag: u8, content: &[u8]| -> Vec<u8> {
        let length =
            u8::try_from(content.len()).ok().filter(|length| *length < 128).expect("a short element");
        [&[tag, length], content].concat()
    };
    let method = tlv(0x06, &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01]);
    let entry = tlv(0x30, &[method, tlv(0x86, url.as_bytes())].concat());
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], tlv(0x30, &entry))
}

/// `openssl s_client -status`: what is stapled for this name.
fn stapled(address: SocketAddr, name: &str) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-servername", name, "-status"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("openssl runs; scripts/install-deps.sh installs it");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("OCSP response"),
        "no handshake: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let status = text.lines().find_map(|line| line.trim().strip_prefix("Cert Status: ").map(str::to_owned));
    status.unwrap_or_else(|| "none".to_owned())
}

#[test]
fn answers_of_the_authority_are_stapled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/");
    let authority = Authority::new();
    let issue = |name: &str, serial: u8, url: Option<&str>| -> Pair {
        let mut pair = authority.issue_with(name, |params| {
            params.serial_number = Some(SerialNumber::from(vec![serial]));
            params.custom_extensions.extend(url.map(responder_extension));
        });
        pair.cert += &authority.cert;
        pair
    };
    let (good, revoked) = (issue("good.test", 1, Some(&url)), issue("revoked.test", 2, Some(&url)));
    let (unknown, silent) = (issue("unknown.test", 3, Some(&url)), issue("silent.test", 4, None));
    let file =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file for openssl");
    file("ca.pem", &authority.cert);
    file("ca.key", &authority.key);
    file(
        "index.txt",
        "V\t401231235959Z\t\t01\tunknown\t/CN=good.test\n\
         R\t401231235959Z\t240101000000Z\t02\tunknown\t/CN=revoked.test\n",
    );
    let mut command = Command::new("openssl");
    command.current_dir(folder.path()).args(["ocsp", "-port", &port.to_string(), "-index", "index.txt"]);
    command.args(["-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key", "-nmin", "60"]);
    let responder = Process::start("openssl ocsp", &mut command);
    // Not by connecting: a connection without a request stops it for good.
    responder.wait_for_output("waiting for OCSP client connections");

    let tls = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let ssl = format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}]}}", tls.port());
    let config = YAML_PROVIDER.replace("ssl: {enable: false}", &ssl) + "plugins: [ocsp-stapling]\n";
    let resource = |name: &str, pair: &Pair, more: &str| {
        let (cert, key) = (quoted(&pair.cert), quoted(&pair.key));
        format!(
            "- {{id: {name}, sni: {name}.test, cert: {cert}, key: {key}, ocsp_stapling: {{enabled: true{more}}}}}\n"
        )
    };
    let ssls = resource("good", &good, "")
        + &resource("revoked", &revoked, "")
        + &resource("unknown", &unknown, ", skip_verify: true")
        + &resource("silent", &silent, "");
    let gateway = Gateway::start(&config, Some(&format!("routes: []\nssls:\n{ssls}")));
    let wait = |name: &str, expected: &str| {
        eventually(format_args!("{name} is {expected}"), || stapled(tls, name) == expected);
    };
    wait("good.test", "good");
    wait("unknown.test", "unknown");
    gateway.wait_for_log("names no OCSP responder");
    gateway.wait_for_log("status \"revoked\"");
    assert_eq!(stapled(tls, "revoked.test"), "none");
    assert_eq!(stapled(tls, "silent.test"), "none");

    // A change of the resource keeps what is known: the responder is not needed for it.
    drop(responder);
    let checked = resource("unknown", &unknown, "");
    let ssls = resource("good", &good, ", cache_ttl: 3600") + &checked;
    gateway.write_routes(&format!("routes: []\nssls:\n{ssls}"));
    wait("unknown.test", "none");
    assert_eq!(stapled(tls, "good.test"), "good");
}

#[test]
fn the_field_needs_the_plugin() {
    let mut gateway = Gateway::start(tidegate_testkit::gateway::EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let pair = Authority::new().issue("a.test");
    let body = format!(
        "{{\"sni\": \"a.test\", \"cert\": {}, \"key\": {}, \"ocsp_stapling\": {{\"enabled\": true}}}}",
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/ssls/1", &body);
    assert_eq!(status, 400);
    assert!(answer.contains("additional properties forbidden, found ocsp_stapling"), "{answer}");
}
