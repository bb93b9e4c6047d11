//! Certificates of clients: chains for the table, names for the variables, and those of APISIX's tutorial.

use std::path::Path;

use rcgen::{
    CertificateParams, CustomExtension, DnType, DnValue, ExtendedKeyUsagePurpose as Eku,
    KeyUsagePurpose as Ku,
};

use super::chains::{
    Chain, Change, Made, alone, authority, by_openssl, expired, is_authority, leaf, make, root, same,
    unknown_critical, version_1_root,
};

pub(super) fn of_clients(folder: &Path) -> Vec<Chain> {
    let one = root("clients", same);
    let between = authority("clients between", Some(&one), same);
    let no_sign =
        authority("clients no keyCertSign", Some(&one), |params| params.key_usages = vec![Ku::CrlSign]);
    let for_servers = authority("clients for servers", Some(&one), |params| {
        params.extended_key_usages = vec![Eku::ServerAuth]
    });
    let stranger = root("clients stranger", same);
    let old_root = root("clients expired root", expired);
    let own = alone(is_authority, "client CA:TRUE");
    let version_1 = version_1_root(folder, "clients v1 root");
    let old = |by: &Made, bits, digest| by_openssl(folder, by, "/CN=old client", bits, digest, None);
    let row = |name, change: Change| Chain::new(name, &[&leaf(&one, change)], &[]);
    let mut deep = vec![authority("deep 1", Some(&one), same)];
    for name in ["deep 2", "deep 3", "deep 4"] {
        deep.push(authority(name, deep.last(), same));
    }
    let far: Vec<Made> = vec![leaf(&deep[2], same), leaf(&deep[3], same)];
    vec![
        Chain::new("root and leaf", &[&leaf(&one, same)], &[&one]),
        Chain::new("intermediate", &[&leaf(&between, same), &between], &[]),
        Chain::new("missing intermediate", &[&leaf(&between, same)], &[]),
        Chain::new("unknown root", &[&leaf(&stranger, same)], &[]),
        Chain::new("three intermediates", &[&far[0], &deep[2], &deep[1], &deep[0]], &[]),
        Chain::new("four intermediates", &[&far[1], &deep[3], &deep[2], &deep[1], &deep[0]], &[]),
        Chain::new("expired root", &[&leaf(&old_root, same)], &[&old_root]),
        row("expired leaf", expired),
        row("EKU clientAuth", |params| params.extended_key_usages = vec![Eku::ClientAuth]),
        row("EKU serverAuth", |params| params.extended_key_usages = vec![Eku::ServerAuth]),
        row("key usage digitalSignature", |params| params.key_usages = vec![Ku::DigitalSignature]),
        row("key usage keyEncipherment", |params| params.key_usages = vec![Ku::KeyEncipherment]),
        row("unknown critical extension", unknown_critical),
        row("CA:TRUE leaf of a root", is_authority),
        Chain::new("intermediate without keyCertSign", &[&leaf(&no_sign, same), &no_sign], &[]),
        Chain::new("intermediate for servers only", &[&leaf(&for_servers, same), &for_servers], &[]),
        Chain::new("self-signed CA:TRUE, trusted", &[&own], &[&own]),
        Chain::new("self-signed CA:TRUE, not trusted", &[&alone(is_authority, "client unknown")], &[]),
        Chain::new("v1 leaf of a v1 root", &[&old(&version_1, 2048, "-sha256")], &[&version_1]),
        Chain::new("v1 leaf of a v3 root", &[&old(&one, 2048, "-sha256")], &[]),
        Chain::new(
            "v1 leaf of an unknown v1 root",
            &[&old(&version_1_root(folder, "unknown"), 2048, "-sha256")],
            &[],
        ),
        Chain::new("v1 leaf, SHA-1 signature", &[&old(&version_1, 2048, "-sha1")], &[]),
        Chain::new("v1 leaf, RSA 1024", &[&old(&version_1, 1024, "-sha256")], &[]),
    ]
}

pub(super) fn self_signed_authority(name: &str) -> Made {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    is_authority(&mut params);
    make(&format!("authority {name}"), None, &rcgen::PKCS_ECDSA_P256_SHA256, params)
}

pub(super) fn authority_of_variables() -> Made {
    root("variables, \"quoted\" + <sharp>; #", |params| {
        params.distinguished_name.push(DnType::CountryName, "DE");
        params.distinguished_name.push(DnType::OrganizationName, "Übergröße GmbH & Co. KG");
    })
}

/// Subjects with everything that has to be escaped, numbers of all signs and lengths, and a stranger.
pub(super) fn of_variables(folder: &Path, authority: &Made) -> Vec<Made> {
    let text = |subject: &str| by_openssl(folder, authority, subject, 2048, "-sha256", None);
    let mut all = vec![
        text("/C=CN/ST=江苏/L=Nanjing/O=a, b/OU=c\\+d/OU=\\/slash\\\\/CN=v1 client/emailAddress=a@b.test"),
        text("/DC=test/DC=example/UID=u1+CN=multi/serialNumber=7/title=t/SN=s/GN=g/street=x y"),
        text("/CN= leading and trailing /O=#sharp/O=a=b;<c>\"d\""),
        text("/CN=tab\there\u{7f}"),
    ];
    let mut add = |change: &dyn Fn(&mut CertificateParams)| {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        change(&mut params);
        all.push(make("plain", Some(authority), &rcgen::PKCS_ECDSA_P256_SHA256, params));
    };
    add(&|params| {
        let unknown = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 99999, 7]);
        params.distinguished_name.push(unknown, "dumped");
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 15]), "business");
        params.serial_number = Some(vec![0x80, 1, 2].into());
    });
    add(&|params| {
        let wide = DnValue::BmpString("wide 字".try_into().expect("BMP"));
        params.distinguished_name.push(DnType::OrganizationName, wide);
        let latin = DnValue::TeletexString("latin".try_into().expect("T61"));
        params.distinguished_name.push(DnType::OrganizationalUnitName, latin);
        params.serial_number = Some(vec![5].into());
    });
    add(&|params| {
        params
            .custom_extensions
            .push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 2], vec![5, 0]));
    });
    all.push(alone(same, "stranger"));
    all.push(leaf(&root("unknown authority", same), same));
    all
}

/// nginx refuses this one with an error page, whatever `ssl_verify_client` says.
pub(super) fn expired_client(authority: &Made) -> Made {
    leaf(authority, expired)
}

/// The commands of the tutorial: an authority, a server and a client without extensions.
pub(super) fn of_tutorial(folder: &Path) -> (Made, Made, Made) {
    let root = version_1_root(folder, "ROOTCA");
    let below = |subject: &str| by_openssl(folder, &root, subject, 2048, "-sha256", None);
    let (server, client) = (below("/CN=test.com"), below("/CN=CLIENT"));
    (root, server, client)
}
