//! `apisix.ssl.fallback_sni` without a certificate: clients that send no server name are refused, which is said where the name
//! is written, at the start and when the certificate goes.

use tidegate_testkit::free_port;
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};

use crate::protocols::certs::{quoted, self_signed};

const MISSING: &str = "apisix.ssl.fallback_sni: no certificate is for a.test, so clients that send no server name are refused; \
                       add an ssls object with this name, or name one that has a certificate";

#[test]
fn a_name_without_a_certificate_is_reported() {
    let pair = self_signed("a.test");
    let ssl = |name: &str| {
        format!(
            "routes: []\nssls:\n- {{id: 1, sni: \"{name}\", cert: {}, key: {}}}\n",
            quoted(&pair.cert),
            quoted(&pair.key)
        )
    };
    let config = YAML_PROVIDER.replace(
        "ssl: {enable: false}",
        &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}], fallback_sni: a.test}}", free_port()),
    );
    let wildcard = config.replace("fallback_sni: a.test", "fallback_sni: '*.test'");
    let (done, said) = Gateway::start(&wildcard, Some(&ssl("*.test"))).verb("test");
    assert!(done && !said.contains("fallback_sni"), "{said}");
    for (name, is_missing) in [("b.test", true), ("*.a.test", true), ("A.test", false), ("*.test", false)] {
        let gateway = Gateway::start(&config, Some(&ssl(name)));
        let (done, said) = gateway.verb("test");
        assert!(done, "{said}");
        assert_eq!(said.contains(MISSING), is_missing, "{name}: {said}");
        assert_eq!(gateway.error_log().contains(MISSING), is_missing, "{name}");
        if is_missing {
            assert!(
                said.lines().any(|line| line.contains(MISSING) && line.contains("config.yaml:")),
                "{said}"
            );
        } else {
            gateway.write_routes(&ssl("b.test"));
            gateway.wait_for_log(MISSING);
        }
    }
}
