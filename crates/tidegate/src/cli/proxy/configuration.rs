//! What `tidegate proxy` serves: the objects of an apisix.yaml, and the config.yaml for them.

use std::net::SocketAddr;

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::{
    arguments::{Arguments, Auth},
    target::{self, Target},
};
use crate::cli::{self_signed, temporary::LOG_FORMAT};

/// The consumer, and the user name for a password.
const USER: &str = "user";

/// One route, and what it needs.
pub(super) struct Configuration {
    to: Target,
    listen: SocketAddr,
    tls: bool,
    /// The secret that was made.
    auth: Option<(Auth, String)>,
    objects: Map<String, Value>,
}

impl Configuration {
    pub(super) fn make(arguments: &Arguments, listen: SocketAddr) -> anyhow::Result<Configuration> {
        let random = |auth| -> anyhow::Result<_> {
            Ok((auth, tidegate_config::random_key().context("cannot read random numbers")?))
        };
        let auth = arguments.auth.map(random).transpose()?;
        let mut objects = Map::new();
        objects.insert("routes".to_owned(), json!([route(arguments)]));
        if let Some((auth, secret)) = &auth {
            let plugin = match auth {
                Auth::Key => json!({"key-auth": {"key": secret}}),
                Auth::Basic => json!({"basic-auth": {"username": USER, "password": secret}}),
            };
            objects.insert("consumers".to_owned(), json!([{"username": USER, "plugins": plugin}]));
        }
        if arguments.tls.is_some() {
            let names = self_signed::names(listen);
            let made = self_signed::make(&names)?;
            let ssl = json!({"id": "proxy", "snis": names, "cert": made.certificate, "key": made.key});
            objects.insert("ssls".to_owned(), json!([ssl]));
        }
        Ok(Configuration { to: arguments.to.clone(), listen, tls: arguments.tls.is_some(), auth, objects })
    }

    /// The text of apisix.yaml.
    pub(super) fn resources(&self) -> anyhow::Result<String> {
        let text = serde_saphyr::to_string(&Value::Object(self.objects.clone()));
        let text = text.context("cannot write YAML")?;
        Ok(format!("{}\n#END\n", text.trim_end()))
    }

    /// The text of apisix.yaml, below the config.yaml that it needs.
    pub(super) fn printed(&self) -> anyhow::Result<String> {
        let mut text = String::from(
            "# In conf/apisix.yaml of a folder, with this conf/config.yaml beside it; then `tidegate run --prefix FOLDER`:\n#\n",
        );
        // Clients of this machine are clients like others: none says where a request comes from.
        for line in self.config(&json!({"http": {"real_ip_from": []}})).lines() {
            text += &format!("# {line}\n");
        }
        text += "\n";
        Ok(text + &self.resources()?)
    }

    /// config.yaml for the process that serves.
    pub(super) fn served_config(&self) -> String {
        let nginx = json!({
            "error_log": "/dev/stderr",
            "http": {"access_log": "/dev/stdout", "access_log_format": LOG_FORMAT.replace('\\', ""), "real_ip_from": []},
        });
        // Another gateway of this machine may have the port of the metrics page.
        self.config(&nginx) + "plugin_attr: {prometheus: {enable_export_server: false}}\n"
    }

    fn config(&self, nginx: &Value) -> String {
        let listen = json!([{"ip": self.listen.ip().to_string(), "port": self.listen.port()}]);
        let (plain, tls) = match self.tls {
            true => (json!([]), json!({"listen": listen, "fallback_sni": "localhost"})),
            false => (listen, json!({"enable": false})),
        };
        let mut text = format!(
            "apisix: {{node_listen: {plain}, ssl: {tls}, enable_admin: false, enable_control: false}}\n\
             deployment: {{role: data_plane, role_data_plane: {{config_provider: yaml}}}}\n"
        );
        text += &format!("nginx_config: {nginx}\n");
        text
    }

    /// For standard error, when the port is open.
    pub(super) fn banner(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let Configuration { listen, to, .. } = self;
        let insecure = if self.tls { " -k" } else { "" };
        let url = format!("{scheme}://{listen}");
        let mut text = format!("tidegate: {url} -> {to}");
        match &self.auth {
            None => {}
            Some((Auth::Key, key)) => {
                text += &format!("\ntidegate: key {key}: curl{insecure} -H 'apikey: {key}' {url}/");
            }
            Some((Auth::Basic, password)) => {
                text += &format!(
                    "\ntidegate: user {USER}, password {password}: curl{insecure} -u {USER}:{password} {url}/"
                );
            }
        }
        text
    }
}

fn route(arguments: &Arguments) -> Value {
    let Target { tls, host, port } = &arguments.to;
    let mut upstream = json!({
        "type": "roundrobin",
        "scheme": if *tls { "https" } else { "http" },
        "nodes": [{"host": target::bracketed(host), "port": port, "weight": 1}],
    });
    // Servers with TLS serve by name; others get the name that the client used, as a development server expects.
    if *tls && let Some(fields) = upstream.as_object_mut() {
        fields.insert("pass_host".to_owned(), json!("node"));
    }
    let mut plugins = Map::new();
    let mut add = |name: &str, conf: Value| plugins.insert(name.to_owned(), conf);
    match arguments.auth {
        None => {}
        // The secret is the gateway's, and not for the server behind it.
        Some(Auth::Key) => drop(add("key-auth", json!({"hide_credentials": true}))),
        Some(Auth::Basic) => drop(add("basic-auth", json!({"hide_credentials": true}))),
    }
    if let Some(rate) = arguments.rate {
        let conf = json!({
            "count": rate.count, "time_window": rate.window, "key": "remote_addr", "rejected_code": 429,
        });
        add("limit-count", conf);
    }
    if arguments.cors {
        add("cors", json!({}));
    }
    let mut route = json!({"id": "proxy", "uri": "/*", "enable_websocket": true, "upstream": upstream});
    if !plugins.is_empty()
        && let Some(fields) = route.as_object_mut()
    {
        fields.insert("plugins".to_owned(), Value::Object(plugins));
    }
    route
}
