//! Lets clients through, or keeps them out, by their address.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step};
use tidegate_routing::address::AddressSet;

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ip-restriction",
    version: 0.1,
    priority: 3000,
    schema: include_str!("ip_restriction.json"),
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    whitelist: Option<Vec<String>>,
    blacklist: Option<Vec<String>>,
    message: String,
    response_code: u16,
}

struct IpRestriction {
    addresses: AddressSet,
    /// The set names who may pass; else who may not.
    is_whitelist: bool,
    rejection: Reply,
}

/// The schema's pattern lets some impossible IPv6 addresses through.
fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    for list in ["whitelist", "blacklist"] {
        let items = conf.get(list).and_then(Value::as_array).into_iter().flatten();
        for item in items.filter_map(Value::as_str) {
            AddressSet::parse([item]).map_err(|_| format!("invalid ip address: {item}"))?;
        }
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let is_whitelist = conf.whitelist.is_some();
    let items = conf.whitelist.or(conf.blacklist).unwrap_or_default();
    Ok(Arc::new(IpRestriction {
        addresses: AddressSet::parse(items.iter().map(String::as_str))?,
        is_whitelist,
        rejection: Reply::message(conf.response_code, &conf.message),
    }))
}

impl Plugin for IpRestriction {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.addresses.contains(request.remote_addr) == self.is_whitelist {
            Step::Next
        } else {
            Step::reply(self.rejection.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn impossible_addresses_are_named_whole() {
        let cases = [
            (json!({"whitelist": ["10.0.0.0/8", "::1", "2001:db8::/32"]}), Ok(())),
            (json!({"blacklist": ["::1/129"]}), Err("invalid ip address: ::1/129")),
            (json!({"blacklist": ["::ffgg"]}), Err("invalid ip address: ::ffgg")),
        ];
        for (conf, expected) in cases {
            assert_eq!(check(&conf, SchemaKind::Plugin), expected.map_err(str::to_owned), "{conf}");
        }
    }
}
