//! What stands open at the Admin and the Control API, as warnings for every start.

use std::net::IpAddr;

use crate::{
    admin_key,
    settings::{Access, Admin, AdminKey, Key, Settings, listener::Listener},
};

/// Keys that are published: APISIX's two, and those of our own documentation.
pub const PUBLISHED_KEYS: &[&str] =
    &["edd1c9f034335f136f87ad84b625c8f1", "4054f7cf07e344346cd3f287985e76a2", "change-me"];

/// A shorter key is guessed by trying, which X-API-KEY does not limit.
const SHORTEST_KEY: usize = 8;

/// One message for each door that stands open, or that nothing opens, with the key of config.yaml that says so.
pub fn warnings(settings: &Settings) -> Vec<(String, String)> {
    let admin = &settings.admin;
    let mut found = Vec::new();
    if let Some(control) = settings.apisix.control.as_ref().filter(|listener| !is_own(&listener.ip)) {
        let message = format!(
            "other machines can reach the Control API at {}:{}, which requires no key; set ip to 127.0.0.1",
            control.ip, control.port
        );
        found.push(("apisix.control".to_owned(), message));
    }
    let Some(listen) = &admin.listen else { return found };
    let mut warn = |key: &str, message: String| found.push((format!("deployment.admin.{key}"), message));
    let keys: &[AdminKey] = match &admin.access {
        Access::Open => {
            let pages = if admin.cors {
                ", and so may any page in a browser that does (enable_admin_cors)"
            } else {
                ""
            };
            let message = format!(
                "the Admin API requires no key, so anyone who can reach it can change everything{pages}; \
                 remove \
                 admin_key_required: false"
            );
            warn("admin_key_required", message);
            &[]
        }
        Access::Keys(keys) if keys.is_empty() => {
            let message = "there is no admin key, so every request to the Admin API is answered 401; \
                           remove admin_key to have one generated, add one, or set apisix.enable_admin: false";
            warn("admin_key", message.to_owned());
            &[]
        }
        Access::Keys(keys) => keys.as_slice(),
    };
    warn_of_keys(settings, keys, &mut warn);
    if let Some(networks) = &admin.allow
        && networks.iter().all(|network| network == "unix:")
    {
        let message = "no client can use the Admin API: it has no unix socket, and allow_admin has no \
        address; \
                       add 127.0.0.1, or set apisix.enable_admin: false";
        warn("allow_admin", message.to_owned());
    }
    if reachable(settings) && !asks_for_certificates(settings) {
        let message = format!(
            "other machines can reach the Admin API at {}:{} without a client certificate; listen on 127.0.0.1, \
             narrow allow_admin, or set https_admin and admin_api_mtls.admin_ssl_ca_cert",
            settings.shared_with_admin().find(|node| !is_own(&node.ip)).unwrap_or(listen).ip,
            listen.port
        );
        warn("admin_listen", message);
    }
    if admin.console == Some(true) && settings.shared_with_admin().next().is_some() {
        let message =
            "the console is not served on a port of the data plane; give admin_listen a port of its own";
        warn("enable_admin_ui", message.to_owned());
    }
    warn_of_certificates(settings, &mut warn);
    found
}

/// Client certificates that are not asked for.
fn warn_of_certificates(settings: &Settings, warn: &mut impl FnMut(&str, String)) {
    let admin = &settings.admin;
    const AUTHORITIES: &str = "admin_api_mtls.admin_ssl_ca_cert";
    let names_none = admin.client_ca.as_deref().is_none_or(str::is_empty);
    if admin.https && names_none && settings.places.is_set(&format!("deployment.admin.{AUTHORITIES}")) {
        let message = "admin_ssl_ca_cert is empty: no client certificate is requested; name the file, or remove the key";
        warn(AUTHORITIES, message.to_owned());
    }
    if admin.client_ca.is_some() && !admin.https {
        let message =
            "admin_ssl_ca_cert has no effect without https_admin: true: no client certificate is requested";
        warn("admin_api_mtls.admin_ssl_ca_cert", message.to_owned());
    }
}

/// Keys that are known to others, that no request can have, or that are given twice.
fn warn_of_keys(settings: &Settings, keys: &[AdminKey], warn: &mut impl FnMut(&str, String)) {
    for (index, key) in keys.iter().enumerate() {
        match &key.key {
            Key::Configured(value) if PUBLISHED_KEYS.contains(&value.as_str()) => warn(
                &format!("admin_key[{index}].key"),
                format!(
                    "the admin key {:?} is published in documentation; remove it to have one generated, or set \
                     another",
                    key.name
                ),
            ),
            Key::Configured(value) => {
                if let Some(problem) = cannot_match(value).or_else(|| literal(value)).or_else(|| short(value))
                {
                    warn(
                        &format!("admin_key[{index}].key"),
                        format!("the admin key {:?} {problem}", key.name),
                    );
                }
            }
            Key::Generated(_) => {
                let path = settings.files.admin_key(key.role);
                if let Some(mode) = admin_key::loose_mode(&path) {
                    let shown = path.display();
                    let message = format!("others may read {shown} (mode {mode:03o}); run chmod 600 {shown}");
                    warn(&format!("admin_key[{index}]"), message);
                }
            }
        }
    }
    for (index, key) in keys.iter().enumerate() {
        if keys.iter().take(index).any(|other| other.name == key.name) {
            let message = format!(
                "two admin keys have the name {:?}: the history and the audit log show no difference between them; give each a name",
                key.name
            );
            warn(&format!("admin_key[{index}].name"), message);
        }
        let same = |other: &&AdminKey| other.value().is_some() && other.value() == key.value();
        if let Some(first) = keys.iter().take(index).find(same) {
            let message = format!(
                "the admin key {:?} is the same as that of {:?}, whose role applies; give each its own key",
                key.name, first.name
            );
            warn(&format!("admin_key[{index}].key"), message);
        }
    }
}

/// Why no request can have this key: the blanks around a header's value are not part of it.
fn cannot_match(key: &str) -> Option<&'static str> {
    if key.trim().is_empty() {
        Some("is blank, so no request can send it; remove it to have one generated, or set another")
    } else if key.trim() != key {
        Some("has leading or trailing whitespace, so no request can send it; remove it")
    } else if !key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        Some("has characters that not every header can carry; use ASCII letters and digits")
    } else {
        None
    }
}

/// Why others find out the key.
fn short(key: &str) -> Option<&'static str> {
    (key.chars().count() < SHORTEST_KEY)
        .then_some("has fewer than 8 characters, so it can be guessed; remove it to have one generated, or set a longer one")
}

/// What looks like the name of a secret that is somewhere else.
fn literal(key: &str) -> Option<&'static str> {
    let named = key.starts_with("${") || key.starts_with("$env://") || key.starts_with("$secret://");
    named.then_some("is used literally as the key; write ${{NAME}} for a variable of the environment")
}

/// Whether the console is served at `/ui/`: as `enable_admin_ui` says, else where only this machine may use the Admin API.
pub fn serves_console(settings: &Settings) -> bool {
    settings.shared_with_admin().next().is_none()
        && settings.admin.console.unwrap_or_else(|| !reachable(settings))
}

/// Whether requests of other machines are let through to the Admin API.
fn reachable(settings: &Settings) -> bool {
    let Admin { listen, allow, .. } = &settings.admin;
    let Some(listen) = listen else { return false };
    let shared: Vec<&Listener> = settings.shared_with_admin().collect();
    // On a data port it listens nowhere else.
    let listens = match shared.is_empty() {
        true => !is_own(&listen.ip),
        false => shared.iter().any(|listener| !is_own(&listener.ip)),
    };
    let allows = allow.as_ref().is_none_or(|networks| networks.iter().any(|network| !is_own(network)));
    listens && allows
}

/// On a port of the data plane nothing asks for one.
fn asks_for_certificates(settings: &Settings) -> bool {
    let admin = &settings.admin;
    let shared = settings.shared_with_admin().next().is_some();
    admin.https && admin.client_ca.is_some() && !shared
}

/// Whether an address or network is this machine's own. What cannot be read is not.
fn is_own(network: &str) -> bool {
    // For sockets of the file system, which the Admin API has none of.
    if network == "unix:" {
        return true;
    }
    let (address, bits) = network.split_once('/').map_or((network, None), |(ip, bits)| (ip, Some(bits)));
    let bits = bits.map(str::parse::<u8>);
    match (address.parse(), bits) {
        (Ok(IpAddr::V4(address)), None) => address.is_loopback(),
        (Ok(IpAddr::V4(address)), Some(Ok(bits))) => address.is_loopback() && bits >= 8,
        (Ok(IpAddr::V6(address)), None | Some(Ok(128))) => address.is_loopback(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::load::{Source, load_with};

    /// The text of `deployment.admin`, and the start of each warning after its place.
    fn check(admin: &str, expected: &[&str]) {
        check_file(&format!("deployment: {{admin: {{{admin}}}}}\n"), expected);
    }

    fn check_file(text: &str, expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.yaml");
        fs::write(&path, text).unwrap();
        let source =
            Source { file: Some(path.clone()), prefix: folder.path().to_owned(), ..Source::default() };
        let mut warnings = load_with(&source, &|_| None).unwrap().warnings;
        // These files set no keyring.
        warnings.retain(|warning| !warning.contains("encrypts with a key that is published"));
        assert_eq!(warnings.len(), expected.len(), "{text}: {warnings:?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            let (place, said) = warning.split_once(": ").unwrap();
            assert!(place.starts_with(&format!("{}:1:", path.display())), "{text}: {warning}");
            assert!(said.starts_with(expected), "{text}: {warning}");
        }
    }

    #[test]
    fn what_is_warned_of() {
        const OPEN: &str = "the Admin API requires no key";
        const NONE: &str = "there is no admin key";
        const PUBLISHED: &str = "the admin key";
        const REACHED: &str = "other machines can reach";
        check("", &[]);
        check("admin_key: [{name: a, key: secret-1}]", &[]);
        check("admin_key: [{name: a, key: secret}]", &["the admin key \"a\" has fewer than 8"]);
        check(
            "admin_key: [{name: a, key: secret-1}, {name: a, key: secret-2, role: viewer}]",
            &["two admin keys have the name \"a\""],
        );
        for (text, believed) in [
            ("nginx_config: {http: {real_ip_from: [127.0.0.1, 0.0.0.0/0]}}", true),
            ("nginx_config: {http: {real_ip_from: ['::/0']}}", true),
            ("nginx_config: {http: {real_ip_from: [10.0.0.0/8, '2001:db8::/32', 'unix:']}}", false),
            ("apisix: {proxy_mode: http&stream, stream_proxy: {tcp: [9100]}}", false),
            ("apisix: {trusted_addresses: [0.0.0.0/0]}", true),
            ("apisix: {trusted_gateways: [0.0.0.0/1, 128.0.0.0/1]}", true),
        ] {
            check_file(&format!("{text}\n"), if believed { &["with "] } else { &[] });
        }
        let idle = "no effect: nginx_config.stream.real_ip_from: TCP and UDP are not proxied";
        check_file("nginx_config: {stream: {real_ip_from: [0.0.0.0/0]}}\n", &[idle]);
        const CONTROL: &str = "other machines can reach the Control API";
        check_file("apisix: {enable_admin: false, control: {ip: 0.0.0.0}}\n", &[CONTROL]);
        check("admin_key_required: false", &[OPEN]);
        check("admin_key_required: false, admin_key: []", &[OPEN]);
        check("admin_key: []", &[NONE]);
        check("admin_key: ~", &[NONE]);
        for key in super::PUBLISHED_KEYS {
            check(&format!("admin_key: [{{name: a, key: {key}}}]"), &[PUBLISHED]);
        }
        check("allow_admin: ~", &[REACHED]);
        check("allow_admin: [127.0.0.1, 10.0.0.0/8]", &[REACHED]);
        check("allow_admin: [127.0.0.0/7]", &[REACHED]);
        check("allow_admin: []", &["no client can use"]);
        check("allow_admin: ['unix:']", &["no client can use"]);
        check("allow_admin: ['unix:', '::1']", &[]);
        check(r#"admin_key: [{name: a, key: "  "}]"#, &["the admin key \"a\" is blank"]);
        check(r#"admin_key: [{name: a, key: "k "}]"#, &["the admin key \"a\" has leading"]);
        check(r#"admin_key: [{name: a, key: "k\n"}]"#, &["the admin key \"a\" has leading"]);
        check("admin_key: [{name: a, key: schlüssel}]", &["the admin key \"a\" has characters"]);
        check("admin_key: [{name: a, key: '${NOKEY}'}]", &["the admin key \"a\" is used literally"]);
        check("admin_key: [{name: a, key: '$env://EK'}]", &["the admin key \"a\" is used literally"]);
        check(
            "admin_key: [{name: a, key: the-same}, {name: b, key: the-same, role: viewer}]",
            &["the admin key \"b\" is the same as that of \"a\""],
        );
        check("allow_admin: ~, admin_listen: {ip: 127.0.0.1}", &[]);
        check("allow_admin: ~, admin_listen: {ip: '::'}", &[REACHED]);
        check("allow_admin: ~, admin_key_required: false", &[OPEN, REACHED]);
        check_file(
            "deployment: {admin: {enable_admin_ui: true, admin_listen: {port: 9080}}}\n",
            &["the console is not served on a port of the data plane"],
        );
        let files = "admin_ssl_cert: c, admin_ssl_cert_key: k";
        let mutual = format!("{files}, admin_ssl_ca_cert: a");
        check(&format!("allow_admin: ~, https_admin: true, admin_api_mtls: {{{files}}}"), &[REACHED]);
        check(&format!("allow_admin: ~, https_admin: true, admin_api_mtls: {{{mutual}}}"), &[]);
        check(
            &format!("admin_api_mtls: {{{mutual}}}"),
            &[
                "admin_ssl_cert has no effect",
                "admin_ssl_cert_key has no effect",
                "admin_ssl_ca_cert has no effect",
            ],
        );
    }
}
