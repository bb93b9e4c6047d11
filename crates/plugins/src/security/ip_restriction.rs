//! Lets clients through, or keeps them out, by their address.

use std::{net::IpAddr, sync::Arc};

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};
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
    listed: Listed,
    rejection: Reply,
}

/// Who may pass.
pub(crate) struct Listed {
    addresses: AddressSet,
    /// The set names who may pass; else who may not.
    is_whitelist: bool,
}

impl Listed {
    fn new(whitelist: Option<Vec<String>>, blacklist: Option<Vec<String>>) -> Result<Listed, String> {
        let is_whitelist = whitelist.is_some();
        // The schema wants one of them; without any, nothing would say who may pass.
        let items = whitelist.or(blacklist).ok_or("neither whitelist nor blacklist is set")?;
        Ok(Listed { addresses: AddressSet::parse(items.iter().map(String::as_str))?, is_whitelist })
    }

    /// Of a configuration that passed its schema, with the status of those who may not pass.
    pub(crate) fn of(conf: &Value) -> Result<(Listed, u16), String> {
        let conf: Conf = typed(conf)?;
        Ok((Listed::new(conf.whitelist, conf.blacklist)?, conf.response_code))
    }

    pub(crate) fn may_pass(&self, address: IpAddr) -> bool {
        self.addresses.contains(address) == self.is_whitelist
    }
}

/// The schema's pattern lets some impossible IPv6 addresses through.
pub(crate) fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
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
    Ok(Arc::new(IpRestriction {
        listed: Listed::new(conf.whitelist, conf.blacklist)?,
        rejection: Reply::message(conf.response_code, &conf.message),
    }))
}

impl Plugin for IpRestriction {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.listed.may_pass(request.remote_addr) {
            Step::Next
        } else {
            Step::reply(self.rejection.clone())
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
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
