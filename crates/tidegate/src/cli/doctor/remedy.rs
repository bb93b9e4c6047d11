//! What to do about an object whose fault says no more than what is wrong.

pub(super) const UNUSABLE: &str = " cannot be used: ";

/// Whose place answers 503 until then.
const CORRECT: &str = "correct the object; until then its place answers 503";

/// Of an object that is served.
const SERVED: &str = "correct the object; until then it is served as the message says";

/// Of a route whose requests are not known.
const OPEN: &str =
    "correct the object: until then its requests get what broader routes answer, without its guards";

/// What a message has in it, and the remedy.
const REMEDIES: [(&str, &str); 7] = [
    ("NOT refused", OPEN),
    (
        "unknown plugin [",
        "docs/plugins has all plugins, and why some of APISIX are not available: take it out of the object and do \
         without, or leave these routes with APISIX; a plugin of your own in Lua is loaded from its file (apisix.extra_lua_path, \
         docs/guide/lua.md), others run in a plugin runner (ext-plugin-pre-req)",
    ),
    (
        "unknown protocol [",
        "take `protocol` out: of protocols on top of TCP (xRPC) there are redis and dubbo, and without one the route proxies plain TCP",
    ),
    (
        "upstream.scheme of ",
        "use the scheme http, https, grpc or grpcs: tcp, udp and tls are for stream routes",
    ),
    (
        "' not found: only those of the guide",
        "docs/guide/lua.md lists the modules that functions may require",
    ),
    (
        "could not be with this config.yaml",
        "put the old key back into the keyring, or write the object again with its secrets before the old key goes",
    ),
    (" has no effect", "take it out, or correct it: requests are served as if it were not there"),
];

pub(super) fn of(message: &str) -> &'static str {
    let remedy = REMEDIES.iter().find(|(part, _)| message.contains(part));
    let otherwise = if message.contains(UNUSABLE) { CORRECT } else { SERVED };
    remedy.map_or(otherwise, |(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_of_ones_own_has_its_ways() {
        let remedy = of("routes/1 cannot be used: unknown plugin [my-plugin]");
        assert!(
            ["apisix.extra_lua_path", "docs/guide/lua.md", "plugin runner"]
                .iter()
                .all(|way| remedy.contains(way))
        );
        assert_eq!(of("routes/1 cannot be used: y"), CORRECT);
        assert_eq!(of("global_rules/1: it has no plugins"), SERVED);
        let open = of(
            "routes/1 cannot be used: none of its paths can be read: its requests are unknown and NOT refused",
        );
        assert!(!open.contains("503"), "{open}");
    }
}
