//! `client_max_body_size` and `proxy_request_buffering`.

use serde_json::{Map, Value, json};

use super::{
    chain::Chain,
    made::{Made, Stop},
};

/// nginx's default.
const DEFAULT_BYTES: u64 = 1 << 20;

pub(super) fn limits(chain: &Chain, plugins: &mut Map<String, Value>) -> Made<()> {
    let limit = match chain.one("client_max_body_size") {
        None => DEFAULT_BYTES,
        Some(size) => bytes(size.argument(0))
            .ok_or_else(|| Stop::closed(format!("`{}`: invalid size", size.title())))?,
    };
    // 0: without a limit.
    if limit > 0 {
        plugins.insert("client-control".to_owned(), json!({"max_body_size": limit}));
    }
    if chain.word("proxy_request_buffering") == "off" {
        plugins.insert("proxy-control".to_owned(), json!({"request_buffering": false}));
    }
    Ok(())
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.to_lowercase();
    let units = [("k", 1024), ("m", 1 << 20), ("g", 1 << 30), ("", 1)];
    units.iter().find_map(|(unit, factor)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*factor))
}
