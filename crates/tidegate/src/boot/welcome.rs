//! What a user sees first: where things are, and one command to try.

use std::net::SocketAddr;

use config::Settings;

pub fn print(settings: &Settings, addresses: &[SocketAddr]) {
    let Some(proxy) = addresses.first() else { return };
    let proxy_port = proxy.port();
    println!("tidegate {}", env!("CARGO_PKG_VERSION"));
    let list: Vec<String> = addresses.iter().map(|address| format!("http://{address}")).collect();
    println!("  proxy       {}", list.join("  "));
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
         curl http://127.0.0.1:{proxy_port}/hello\n",
        listener.port
    );
}
