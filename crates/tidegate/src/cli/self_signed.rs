//! A certificate that is made when a verb starts, for trying things out: no client trusts it.

use std::net::{IpAddr, SocketAddr};

use anyhow::Context;
use rcgen::{CertificateParams, KeyPair};
use tidegate_echo::Identity;

/// For these names and addresses; the key is new, ECDSA on P-256.
pub(super) fn make(names: &[String]) -> anyhow::Result<Identity> {
    let made = || {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        Ok::<_, rcgen::Error>(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    };
    made().context("cannot make a certificate")
}

/// What a client on this machine or in its network may call it.
pub(super) fn names(address: SocketAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let is_name = !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        && host.parse::<IpAddr>().is_err();
    let ip = address.ip();
    let others = [Some(host).filter(|_| is_name), Some(ip.to_string()).filter(|_| !ip.is_unspecified())];
    for name in others.into_iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_and_key_belong_together() {
        let names = names(SocketAddr::from(([192, 0, 2, 1], 80)));
        assert!(names.starts_with(&["localhost".to_owned(), "127.0.0.1".to_owned()]), "{names:?}");
        assert!(names.contains(&"192.0.2.1".to_owned()), "{names:?}");
        let made = make(&names).expect("made");
        assert!(tidegate_echo::server_config(&made).is_ok());
        assert!(!self::names(SocketAddr::from(([0, 0, 0, 0], 80))).contains(&"0.0.0.0".to_owned()));
    }
}
