//! `set_real_ip_from` and its neighbours as plugin real-ip.

use serde_json::{Map, Value, json};

use super::{
    chain::Chain,
    made::{Made, Stop},
};

pub(super) const NAME: &str = "real-ip";

/// For a place whose answer is known, which may name the client.
pub(super) fn add(chain: &Chain, plugins: &mut Map<String, Value>) -> Made<()> {
    if let Some(conf) = plugin(chain)? {
        plugins.insert(NAME.to_owned(), conf);
    }
    Ok(())
}

const FORWARDED_FOR: &str = "X-Forwarded-For";

pub(super) fn plugin(chain: &Chain) -> Made<Option<Value>> {
    let from = chain.all("set_real_ip_from");
    chain.take(&["real_ip_header", "real_ip_recursive"]);
    if from.is_empty() {
        return Ok(None);
    }
    // nginx looks at the header once, as the server says, and as the location says only where that changed nothing.
    if chain.says_besides(&["set_real_ip_from", "real_ip_header", "real_ip_recursive"], "set_real_ip_from") {
        return Err(Stop::closed(
            "`set_real_ip_from` or `real_ip_header` in a location, beside those of its server",
        ));
    }
    let header = match chain.word("real_ip_header") {
        "" => "X-Real-IP",
        "proxy_protocol" => return Err(Stop::closed("`real_ip_header proxy_protocol` is not converted")),
        // nginx takes fields with this sign for none, so that the address never changes.
        header if header.contains('_') => return Ok(None),
        // It means the first line only then.
        header if header.eq_ignore_ascii_case(FORWARDED_FOR) && header != FORWARDED_FOR => {
            return Err(Stop::closed(format!("`real_ip_header {header}` in small letters is not converted")));
        }
        header if !header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
            return Err(Stop::closed(format!("`real_ip_header {header}` is not converted")));
        }
        header => header,
    };
    let trusted: Vec<&str> =
        from.iter().map(|from| from.argument(0)).filter(|address| *address != "unix:").collect();
    if let Some(bad) = trusted.iter().find(|address| super::maps::network(address).is_none()) {
        return Err(Stop::closed(format!("`set_real_ip_from {bad}`: invalid network")));
    }
    Ok(Some(json!({
        "source": format!("http_{}", header.to_lowercase().replace('-', "_")),
        "trusted_addresses": trusted,
        "recursive": chain.word("real_ip_recursive") == "on",
    })))
}
