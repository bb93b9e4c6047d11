//! Gateways that share a real etcd, with each other and with APISIX.

mod agreement;
mod bad_values;
mod in_doubt;
mod layout;
mod made_again;
mod masks;
mod outages;
mod proxied;
mod quiet;
mod reports;
mod roles;
mod second_version;
mod secured;
mod upgraded;
mod without;

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::EMBEDDED;

/// config.yaml for these members, with one key to encrypt with.
pub(crate) fn config(hosts: &str) -> String {
    let etcd = format!(
        "deployment:\n  etcd: {{host: [{hosts}], timeout: 5}}\n  role_traditional: {{config_provider: etcd}}\n"
    );
    EMBEDDED
        .replace("deployment:\n", &etcd)
        .replace("  role_traditional: {config_provider: embedded}\n", "")
        .replace("apisix:\n", "apisix:\n  data_encryption: {keyring: [edd1c9f0985e76a2]}\n")
}

/// The status of one GET to the proxy port.
fn status(gateway: &Gateway, path: &str) -> u16 {
    gateway.client().get("h", path).expect("the gateway answers").status()
}

/// A route that answers by itself.
fn mock(uri: &str, status: u16) -> String {
    format!(
        r#"{{"uri":"{uri}","plugins":{{"mocking":{{"response_status":{status},"response_example":"x"}}}}}}"#
    )
}

/// One sample of the gateway's metrics page, by its name and labels.
fn metric(gateway: &Gateway, name: &str) -> String {
    let mut client =
        tidegate_testkit::Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("h", "/apisix/prometheus/metrics").expect("a page").body_text();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in:\n{page}")).to_owned()
}

/// Waits until a start ends for this reason.
fn check_refused(mut gateway: Gateway, reason: &str) {
    gateway.process.wait_for_output(reason);
    assert!(!gateway.process.wait_for_exit().success(), "{}", gateway.process.output());
}
