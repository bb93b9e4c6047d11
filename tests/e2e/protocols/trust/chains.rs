//! Chains of certificates, good and bad, made on the spot: by rcgen where it can, by the openssl command line where the
//! certificate is older than rcgen (X.509 v1) or weaker than it allows.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose as Eku,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose as Ku, NameConstraints, PKCS_ECDSA_P384_SHA384,
    PKCS_ECDSA_P521_SHA512, PKCS_ED25519, SignatureAlgorithm, date_time_ymd,
};

/// The name that most rows ask for.
pub(super) const HOST: &str = "backend.example.test";

/// One row of the table.
pub(super) struct Chain {
    pub name: &'static str,
    /// Leaf and intermediates, PEM.
    pub shown: String,
    pub key: String,
    /// What is added to the trusted certificates.
    pub trusted: String,
    pub host: &'static str,
    /// Why the gateway's verdict is another one than OpenSSL's.
    pub differs: Option<&'static str>,
}

impl Chain {
    pub(super) fn new(name: &'static str, shown: &[&Made], trusted: &[&Made]) -> Chain {
        let text = |made: &[&Made]| made.iter().map(|it| it.cert.as_str()).collect::<String>();
        Chain {
            name,
            shown: text(shown),
            key: shown[0].key.clone(),
            trusted: text(trusted),
            host: HOST,
            differs: None,
        }
    }

    fn asked_as(mut self, host: &'static str) -> Chain {
        self.host = host;
        self
    }

    fn but(mut self, reason: &'static str) -> Chain {
        self.differs = Some(reason);
        self
    }
}

/// A certificate that may have signed others.
pub(super) struct Made {
    pub cert: String,
    pub key: String,
    issuer: Option<Issuer<'static, KeyPair>>,
}

pub(super) type Change = fn(&mut CertificateParams);

pub(super) fn same(_: &mut CertificateParams) {}

pub(super) fn make(
    name: &str,
    by: Option<&Made>,
    algorithm: &'static SignatureAlgorithm,
    params: CertificateParams,
) -> Made {
    signed(name, by, KeyPair::generate_for(algorithm).expect("a key"), params)
}

fn signed(name: &str, by: Option<&Made>, key: KeyPair, mut params: CertificateParams) -> Made {
    params.distinguished_name.push(DnType::CommonName, name);
    let cert = match by {
        Some(by) => params.signed_by(&key, by.issuer.as_ref().expect("an issuer")),
        None => params.self_signed(&key),
    };
    let cert = cert.expect("a certificate").pem();
    Made { cert, key: key.serialize_pem(), issuer: Some(Issuer::new(params, key)) }
}

/// Each authority has a name of its own, since all of them are trusted at the same time.
pub(super) fn root(name: &str, change: Change) -> Made {
    authority(name, None, change)
}

pub(super) fn authority(name: &str, by: Option<&Made>, change: Change) -> Made {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    make(name, by, &rcgen::PKCS_ECDSA_P256_SHA256, params)
}

pub(super) fn leaf(by: &Made, change: Change) -> Made {
    named(by, HOST, change)
}

fn named(by: &Made, name: &str, change: Change) -> Made {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    change(&mut params);
    make("leaf", Some(by), &rcgen::PKCS_ECDSA_P256_SHA256, params)
}

pub(super) fn alone(change: Change, name: &str) -> Made {
    let mut params = CertificateParams::new(vec![HOST.to_owned()]).expect("a name");
    change(&mut params);
    make(name, None, &rcgen::PKCS_ECDSA_P256_SHA256, params)
}

pub(super) fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2019, 1, 1);
    params.not_after = date_time_ymd(2020, 1, 1);
}

fn not_yet(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2090, 1, 1);
}

pub(super) fn is_authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

pub(super) fn unknown_critical(params: &mut CertificateParams) {
    let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
    extension.set_criticality(true);
    params.custom_extensions.push(extension);
}

/// anyPolicy.
fn critical_policies(params: &mut CertificateParams) {
    let policies = vec![0x30, 8, 0x30, 6, 6, 4, 0x55, 0x1d, 0x20, 0];
    let mut extension = CustomExtension::from_oid_content(&[2, 5, 29, 32], policies);
    extension.set_criticality(true);
    params.custom_extensions.push(extension);
}

fn permits(params: &mut CertificateParams, name: &str) {
    let permitted_subtrees = vec![GeneralSubtree::DnsName(name.to_owned())];
    params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
}

/// CN and no subjectAltName.
fn common_name_only(by: &Made, name: &str) -> Made {
    let params = CertificateParams::new(Vec::new()).expect("no names");
    make(name, Some(by), &rcgen::PKCS_ECDSA_P256_SHA256, params)
}

/// All rows that are about servers; the folder is for files of openssl.
pub(super) fn of_servers(folder: &Path) -> Vec<Chain> {
    let mut all = plain();
    all.extend(self_signed());
    all.extend(dates());
    all.extend(names());
    all.extend(authorities());
    all.extend(usages());
    all.extend(algorithms(folder));
    all.extend(version_1(folder));
    all
}

fn plain() -> Vec<Chain> {
    let one = root("plain", same);
    let two = root("with intermediate", same);
    let between = authority("between", Some(&two), same);
    let stranger = root("stranger", same);
    // One authority, signed by two others of which one is trusted.
    let (old, new) = (root("cross old", same), root("cross new", same));
    let key = KeyPair::generate().expect("a key");
    let crossed = |by: &Made| {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        is_authority(&mut params);
        signed("crossed", Some(by), KeyPair::from_pem(&key.serialize_pem()).expect("a key"), params)
    };
    let (by_old, by_new) = (crossed(&old), crossed(&new));
    let trusted_between = authority("trusted alone", Some(&stranger), same);
    vec![
        Chain::new("root and leaf", &[&leaf(&one, same)], &[&one]),
        Chain::new("root, intermediate and leaf", &[&leaf(&between, same), &between], &[&two]),
        Chain::new("missing intermediate", &[&leaf(&between, same)], &[]),
        Chain::new("unknown root", &[&leaf(&stranger, same)], &[]),
        Chain::new("cross-signed", &[&leaf(&by_new, same), &by_new, &by_old], &[&new]),
        Chain::new("cross-signed, the unknown way first", &[&leaf(&by_old, same), &by_old, &by_new], &[])
            .but("every issuer that was sent is tried; OpenSSL follows the first and does not turn back"),
        Chain::new("root sent along", &[&leaf(&one, same), &one], &[]),
        Chain::new(
            "intermediate trusted, its root not",
            &[&leaf(&trusted_between, same)],
            &[&trusted_between],
        )
        .but("each configured certificate is trusted by itself; OpenSSL wants a self-signed one above it"),
    ]
}

fn self_signed() -> Vec<Chain> {
    let authority = alone(is_authority, "self-signed CA:TRUE");
    let signs_only = alone(
        |params| {
            is_authority(params);
            params.key_usages = vec![Ku::KeyCertSign];
        },
        "self-signed keyCertSign",
    );
    let plain = alone(same, "self-signed without CA");
    let unknown = alone(is_authority, "self-signed unknown");
    let old = alone(
        |params| {
            is_authority(params);
            expired(params);
        },
        "self-signed expired",
    );
    let above = root("above an authority", same);
    vec![
        Chain::new("self-signed CA:TRUE, trusted", &[&authority], &[&authority]),
        Chain::new("self-signed CA:TRUE, trusted, other host", &[&authority], &[])
            .asked_as("other.example.test"),
        Chain::new(
            "self-signed CA:TRUE, trusted, key usage keyCertSign only",
            &[&signs_only],
            &[&signs_only],
        ),
        Chain::new("self-signed CA:TRUE, trusted, expired", &[&old], &[&old]),
        Chain::new("self-signed without CA, trusted", &[&plain], &[&plain]),
        Chain::new("leaf of a trusted certificate without CA", &[&leaf(&plain, same)], &[]),
        Chain::new("self-signed CA:TRUE, not trusted", &[&unknown], &[]),
        Chain::new("CA:TRUE leaf of a root", &[&leaf(&above, is_authority)], &[&above]),
    ]
}

fn dates() -> Vec<Chain> {
    let old_root = root("expired root", expired);
    let one = root("dates", same);
    let old_between = authority("expired intermediate", Some(&one), expired);
    // A root that was renewed with its key; both are trusted.
    let key = KeyPair::generate().expect("a key");
    let renewed = |change: Change| {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        is_authority(&mut params);
        change(&mut params);
        signed("renewed", None, KeyPair::from_pem(&key.serialize_pem()).expect("a key"), params)
    };
    let (before, after) = (renewed(expired), renewed(same));
    vec![
        Chain::new("expired root", &[&leaf(&old_root, same)], &[&old_root]),
        Chain::new("expired intermediate", &[&leaf(&old_between, same), &old_between], &[&one]),
        Chain::new("expired leaf", &[&leaf(&one, expired)], &[]),
        Chain::new("leaf that is not valid yet", &[&leaf(&one, not_yet)], &[]),
        Chain::new("renewed root beside the expired one", &[&leaf(&after, same)], &[&before, &after]),
    ]
}

fn names() -> Vec<Chain> {
    let one = root("names", same);
    let narrow = root("names below example.test", |params| permits(params, "example.test"));
    let elsewhere = root("names below other.test", |params| permits(params, "other.test"));
    let row = |name, made: &Made| Chain::new(name, &[made], &[]);
    let partly = "only a whole label may be a wildcard (RFC 9525 section 6.3)";
    let structural = "name constraints are evaluated for X.509 v3 leaves that are not authorities only";
    let constrained = "name constraints are not applied to a CN; a subjectAltName is needed below them";
    vec![
        Chain::new("other host", &[&named(&one, "other.example.test", same)], &[&one]),
        row("address", &named(&one, "127.0.0.1", same)).asked_as("127.0.0.1"),
        row("other address", &named(&one, "127.0.0.2", same)).asked_as("127.0.0.1"),
        row("address in the CN only", &common_name_only(&one, "127.0.0.1")).asked_as("127.0.0.1"),
        row("wildcard", &named(&one, "*.example.test", same)),
        row("wildcard for two labels", &named(&one, "*.test", same)),
        row("wildcard for part of a label", &named(&one, "back*.example.test", same)).but(partly),
        row("CN only", &common_name_only(&one, HOST)),
        row("wildcard in the CN only", &common_name_only(&one, "*.example.test")),
        row("other CN only", &common_name_only(&one, "other.example.test")),
        row("CN, but another subjectAltName", &{
            let params = CertificateParams::new(vec!["other.example.test".to_owned()]).expect("a name");
            make(HOST, Some(&one), &rcgen::PKCS_ECDSA_P256_SHA256, params)
        }),
        row("CN, and an address as subjectAltName", &{
            let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
            make(HOST, Some(&one), &rcgen::PKCS_ECDSA_P256_SHA256, params)
        }),
        Chain::new("name constraints kept", &[&leaf(&narrow, same)], &[&narrow]),
        Chain::new("name constraints broken", &[&leaf(&elsewhere, same)], &[&elsewhere]),
        row("name constraints broken by a CN", &common_name_only(&elsewhere, HOST)),
        row("CA:TRUE leaf, name constraints kept", &leaf(&narrow, is_authority)).but(structural),
        row("name constraints kept by a CN", &common_name_only(&narrow, HOST)).but(constrained),
    ]
}

fn authorities() -> Vec<Chain> {
    let one = root("authorities", same);
    let none = authority("not an authority", Some(&one), |params| params.is_ca = IsCa::ExplicitNoCa);
    let silent = authority("no constraints", Some(&one), |params| params.is_ca = IsCa::NoCa);
    let short = root("pathlen 0", |params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    let below = authority("below pathlen 0", Some(&short), same);
    let no_sign = authority("no keyCertSign", Some(&one), |params| params.key_usages = vec![Ku::CrlSign]);
    let root_no_sign = root("root without keyCertSign", |params| params.key_usages = vec![Ku::CrlSign]);
    let for_clients =
        authority("for clients", Some(&one), |params| params.extended_key_usages = vec![Eku::ClientAuth]);
    let root_for_clients =
        root("root for clients", |params| params.extended_key_usages = vec![Eku::ClientAuth]);
    let row = |name, above: &Made| Chain::new(name, &[&leaf(above, same), above], &[]);
    vec![
        Chain::new("intermediate with CA:FALSE", &[&leaf(&none, same), &none], &[&one]),
        row("intermediate without basic constraints", &silent),
        Chain::new("path length exceeded", &[&leaf(&below, same), &below], &[&short]),
        row("path length just kept", &short),
        row("intermediate without keyCertSign", &no_sign),
        Chain::new("root without keyCertSign", &[&leaf(&root_no_sign, same)], &[&root_no_sign]),
        row("intermediate for clients only", &for_clients),
        Chain::new("root for clients only", &[&leaf(&root_for_clients, same)], &[&root_for_clients]),
    ]
}

fn usages() -> Vec<Chain> {
    let one = root("usages", same);
    let row = |name, change: Change| Chain::new(name, &[&leaf(&one, change)], &[&one]);
    let policies = "critical certificate policies are not evaluated, so the certificate is refused";
    vec![
        row("EKU serverAuth", |params| params.extended_key_usages = vec![Eku::ServerAuth]),
        row("EKU clientAuth", |params| params.extended_key_usages = vec![Eku::ClientAuth]),
        row("EKU any", |params| params.extended_key_usages = vec![Eku::Any]),
        row("key usage digitalSignature", |params| params.key_usages = vec![Ku::DigitalSignature]),
        row("key usage keyEncipherment", |params| params.key_usages = vec![Ku::KeyEncipherment]),
        row("key usage cRLSign", |params| params.key_usages = vec![Ku::CrlSign]),
        row("unknown critical extension", unknown_critical),
        row("critical certificate policies", critical_policies).but(policies),
    ]
}

/// OpenSSL 3.0 does not read the form in which the library writes Ed25519 keys, but the other way round it goes.
fn key_for(algorithm: &'static SignatureAlgorithm) -> KeyPair {
    if algorithm != &PKCS_ED25519 {
        return KeyPair::generate_for(algorithm).expect("a key");
    }
    let mut command = Command::new("openssl");
    command.args(["genpkey", "-algorithm", "ed25519"]);
    KeyPair::from_pem(&run(command, "")).expect("a key")
}

fn algorithms(folder: &Path) -> Vec<Chain> {
    let mut all = Vec::new();
    for (name, algorithm) in
        [("P-384", &PKCS_ECDSA_P384_SHA384), ("P-521", &PKCS_ECDSA_P521_SHA512), ("Ed25519", &PKCS_ED25519)]
    {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        is_authority(&mut params);
        let above = signed(name, None, key_for(algorithm), params);
        let params = CertificateParams::new(vec![HOST.to_owned()]).expect("a name");
        let below = signed("leaf", Some(&above), key_for(algorithm), params);
        all.push(Chain::new(name, &[&below], &[&above]));
    }
    let above = root("signs with openssl", same);
    let san = format!("subjectAltName=DNS:{HOST}");
    let weak = |bits, digest| by_openssl(folder, &above, "/CN=leaf", bits, digest, Some(&san));
    all.push(Chain::new("RSA 2048, SHA-256", &[&weak(2048, "-sha256")], &[&above]));
    all.push(Chain::new("RSA 1024", &[&weak(1024, "-sha256")], &[]));
    all.push(Chain::new("SHA-1 signature", &[&weak(2048, "-sha1")], &[]));
    let above = version_1_root(folder, "signs with MD5");
    let md5 = by_openssl(folder, &above, "/CN=leaf", 2048, "-md5", Some(&san));
    all.push(Chain::new("MD5 signature", &[&md5], &[&above]));
    all
}

fn version_1(folder: &Path) -> Vec<Chain> {
    let old_root = version_1_root(folder, "v1 root");
    let new_root = root("v3 root above v1", same);
    let subject = format!("/CN={HOST}");
    let old = |by: &Made| by_openssl(folder, by, &subject, 2048, "-sha256", None);
    let between = by_openssl(folder, &new_root, "/CN=v1 intermediate", 2048, "-sha256", None);
    let san = format!("subjectAltName=DNS:{HOST}");
    let new = |by: &Made| by_openssl(folder, by, "/CN=leaf", 2048, "-sha256", Some(&san));
    let alone = version_1_root(folder, HOST);
    let all = vec![
        Chain::new("v3 leaf of a v1 root", &[&new(&old_root)], &[&old_root]),
        Chain::new("v1 leaf of a v1 root", &[&old(&old_root)], &[]),
        Chain::new("v1 leaf of a v3 root", &[&old(&new_root)], &[&new_root]),
        Chain::new("v1 leaf, other host", &[&old(&new_root)], &[]).asked_as("other.example.test"),
        Chain::new("v1 leaf of an unknown root", &[&old(&version_1_root(folder, "v1 unknown"))], &[]),
        Chain::new("v1 intermediate", &[&new(&between), &between], &[]),
        Chain::new("v1 self-signed, trusted", &[&alone], &[&alone]),
    ];
    assert!(is_version_1(&all[1].shown), "this openssl makes no X.509 v1");
    all
}

fn is_version_1(pem: &str) -> bool {
    let mut command = Command::new("openssl");
    command.args(["x509", "-noout", "-text"]).stdin(std::process::Stdio::piped());
    let output = run(command, pem);
    output.contains("Version: 1")
}

pub(super) fn version_1_root(folder: &Path, name: &str) -> Made {
    let (key, request) = request(folder, &format!("/CN={name}"), 2048);
    let key_file = folder.join("signkey.pem");
    fs::write(&key_file, &key).expect("a file");
    let mut command = Command::new("openssl");
    command.args(["x509", "-req", "-days", "30", "-sha256", "-signkey"]).arg(&key_file);
    Made { cert: run(command, &request), key, issuer: None }
}

/// Without extensions: X.509 v1.
pub(super) fn by_openssl(
    folder: &Path,
    by: &Made,
    subject: &str,
    bits: u32,
    digest: &str,
    extensions: Option<&str>,
) -> Made {
    let (key, request) = request(folder, subject, bits);
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        path
    };
    let (ca, ca_key) = (file("ca.pem", &by.cert), file("ca.key", &by.key));
    let mut command = Command::new("openssl");
    command.args(["x509", "-req", "-days", "30", digest, "-set_serial", "0x00e1f2", "-CA"]);
    command.arg(ca).arg("-CAkey").arg(ca_key);
    if let Some(extensions) = extensions {
        command.arg("-extfile").arg(file("extensions.conf", extensions));
    }
    Made { cert: run(command, &request), key, issuer: None }
}

fn request(folder: &Path, subject: &str, bits: u32) -> (String, String) {
    let mut command = Command::new("openssl");
    let key_file = folder.join("request.key");
    command.args(["req", "-new", "-nodes", "-utf8", "-multivalue-rdn", "-newkey", &format!("rsa:{bits}")]);
    command.args(["-subj", subject, "-keyout"]).arg(&key_file);
    let request = run(command, "");
    (fs::read_to_string(key_file).expect("a key"), request)
}

fn run(mut command: Command, input: &str) -> String {
    use std::io::Write;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("openssl runs");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("takes its input");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
