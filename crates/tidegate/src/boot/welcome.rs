//! What a user sees first: where things are, and one command to try.

use config::Settings;
use proxy::settings::Listen;

pub fn print(settings: &Settings, listening: &[Listen]) {
    let Some(first) = listening.iter().find(|listen| !listen.tls).or(listening.first()) else { return };
    let (proxy_scheme, proxy_port) = (scheme_of(first), first.address.port());
    println!("tidegate {}", env!("CARGO_PKG_VERSION"));
    println!("  proxy       {}", urls(listening));
    let Some(listener) = &settings.admin.listen else { return };
    let same_port = settings.apisix.node_listen.iter().any(|other| other.port == listener.port);
    let host = if listener.ip == "0.0.0.0" || listener.ip == "::" { "127.0.0.1" } else { &listener.ip };
    let scheme = if settings.admin.https { "https" } else { "http" };
    println!(
        "  admin API   {scheme}://{host}:{}/apisix/admin{}",
        listener.port,
        if same_port { "  (shared)" } else { "" }
    );
    let key = settings.admin.keys.iter().find(|key| key.role == config::settings::AdminRole::Admin);
    let header = match key.filter(|_| settings.admin.key_required) {
        Some(key) => {
            let shown = &key.key;
            println!("  admin key   {shown}");
            format!(" -H 'X-API-KEY: {shown}'")
        }
        None => String::new(),
    };
    println!(
        "\nTry it:\n  curl {scheme}://{host}:{}/apisix/admin/routes/1{header} -X PUT \\\n    \
         -d '{{\"uri\":\"/hello\",\"plugins\":{{\"mocking\":{{\"content_type\":\"text/plain\",\"response_example\":\"hello from tidegate\\n\"}}}}}}'\n  \
         curl {proxy_scheme}://127.0.0.1:{proxy_port}/hello\n",
        listener.port
    );
}

fn urls(listening: &[Listen]) -> String {
    let urls: Vec<String> =
        listening.iter().map(|listen| format!("{}://{}", scheme_of(listen), listen.address)).collect();
    urls.join("  ")
}

fn scheme_of(listen: &Listen) -> &'static str {
    if listen.tls { "https" } else { "http" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_with_tls_are_shown_as_such() {
        let listen = |address: &str, tls| Listen {
            address: address.parse().unwrap(),
            tls,
            proxy_protocol: false,
            optional: false,
        };
        let listening = [listen("0.0.0.0:9080", false), listen("[::]:9443", true)];
        assert_eq!(urls(&listening), "http://0.0.0.0:9080  https://[::]:9443");
    }
}
