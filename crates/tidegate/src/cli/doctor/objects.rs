//! Objects as a gateway would take them, in a trial with ports of its own.

use std::{fs, path::Path};

use anyhow::Context;
use serde_json::{Value, json};

use super::{
    check::Check,
    resources,
    trial::{self, Said},
};
use crate::cli::temporary::Home;

/// Of the trial, which proxies no streams.
const OF_THE_TRIAL: &str = " has no effect: TCP and UDP are proxied where apisix.proxy_mode has stream";

/// Those of a file, with the plugins of `config`, a config.yaml. What they name is not asked.
pub(super) fn of_file(
    file: &Path,
    text: &str,
    document: &Value,
    config: Option<&Value>,
) -> anyhow::Result<Vec<Check>> {
    let said = said_of_file(file, text, config, OwnPlugins::of(config, file))?;
    let all = resources::count(document);
    let seen = format!("{} of {all} can be used", all.saturating_sub(said.unusable()));
    Ok(checks(&said, seen))
}

/// What a start with this file, and the plugins of `config`, would say of its objects, with places in `file`.
pub(in crate::cli) fn said_of_file(
    file: &Path,
    text: &str,
    config: Option<&Value>,
    own_plugins: OwnPlugins,
) -> anyhow::Result<Said> {
    let is_json = file.extension().is_some_and(|ending| ending == "json");
    let (provider, name) = if is_json { ("json", "apisix.json") } else { ("yaml", "apisix.yaml") };
    let deployment = json!({"role": "data_plane", "role_data_plane": {"config_provider": provider}});
    let (home, mut said) = said(deployment, config, own_plugins, &[(name, text)])?;
    let discovery = config.and_then(|config| config.get("discovery")?.as_object());
    let is_followed = |message: &str| {
        let mut kinds = discovery.into_iter().flat_map(|kinds| kinds.keys());
        kinds.any(|kind| message.ends_with(&format!(" no discovery.{kind}")))
    };
    let has_streams = config.and_then(|config| config.pointer("/apisix/proxy_mode")?.as_str());
    let has_streams = has_streams.is_none_or(|mode| mode.contains("stream"));
    said.messages.retain(|text| !(is_followed(text) || has_streams && text.ends_with(OF_THE_TRIAL)));
    let copy = home.path().join("conf").join(name).display().to_string();
    let original = file.display().to_string();
    for message in said.messages.iter_mut().chain(&mut said.refusal) {
        *message = message.replace(&copy, &original);
    }
    Ok(said)
}

/// Those in etcd.
pub(super) fn of_etcd(url: &str, prefix: &str) -> anyhow::Result<Vec<Check>> {
    let etcd = json!({"host": [url], "prefix": prefix, "startup_retry": 1});
    let deployment =
        json!({"role": "data_plane", "role_data_plane": {"config_provider": "etcd"}, "etcd": etcd});
    let (_home, mut said) = said(deployment, None, OwnPlugins::default(), &[])?;
    said.messages.retain(|text| !text.ends_with(OF_THE_TRIAL));
    let seen = match said.unusable() {
        0 => "all can be used".to_owned(),
        bad => format!("{bad} cannot be used as they are"),
    };
    Ok(checks(&said, seen))
}

/// Those of a gateway's folder, wherever they are, which these arguments name. `rejected`: what a running one says that it cannot use.
pub(super) fn of_folder(
    arguments: &[std::ffi::OsString],
    rejected: Option<Vec<Check>>,
) -> anyhow::Result<Vec<Check>> {
    let mut said = trial::test(arguments)?;
    let unusable = rejected.as_ref().map_or_else(|| said.unusable(), Vec::len);
    if rejected.is_some() {
        said.leave_faults_to_the_gateway();
    }
    let seen = match unusable {
        0 => "all can be used".to_owned(),
        bad => format!("{bad} cannot be used as they are"),
    };
    let mut checks = checks(&said, seen);
    checks.extend(rejected.into_iter().flatten());
    Ok(checks)
}

fn checks(said: &Said, seen: String) -> Vec<Check> {
    if let Some(reason) = &said.refusal {
        return vec![Check::of_message("objects", reason, "correct what the message names")];
    }
    let mut checks = vec![Check::good("objects", seen)];
    checks.extend(said.messages.iter().map(|message| trial::check("object", message)));
    checks
}

/// What a config.yaml says of the user's own plugins: those in files of Lua and in WebAssembly, and the runner of others.
#[derive(Default)]
pub(in crate::cli) struct OwnPlugins {
    lua_path: Option<String>,
    wasm: Option<Value>,
    has_runner: bool,
}

impl OwnPlugins {
    /// Of one that is beside `file`, or in the folder `conf` with it.
    pub(in crate::cli) fn of(config: Option<&Value>, file: &Path) -> OwnPlugins {
        let Some(config) = config else { return OwnPlugins::default() };
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let folder = file.parent().unwrap_or(Path::new("/"));
        let prefix = folder.parent().filter(|_| folder.ends_with("conf")).unwrap_or(folder);
        let absolute = |path: &str| prefix.join(path.trim()).display().to_string();
        let lua_path = config.pointer("/apisix/extra_lua_path").and_then(Value::as_str).map(|path| {
            let templates = path.split(';').filter(|template| !template.trim().is_empty());
            templates.map(absolute).collect::<Vec<_>>().join(";")
        });
        let mut wasm = config.get("wasm").cloned();
        let listed = wasm.as_mut().and_then(|wasm| wasm.get_mut("plugins")).and_then(Value::as_array_mut);
        for file in listed.into_iter().flatten().filter_map(|plugin| plugin.get_mut("file")) {
            if let Some(path) = file.as_str() {
                *file = absolute(path).into();
            }
        }
        OwnPlugins { lua_path, wasm, has_runner: config.get("ext-plugin").is_some() }
    }

    fn write_to(self, config: &mut Value) {
        if let Some(path) = self.lua_path {
            config["apisix"]["extra_lua_path"] = path.into();
        }
        if let Some(wasm) = self.wasm {
            config["wasm"] = wasm;
        }
        if self.has_runner {
            // Its program is for the machine that runs the gateway.
            config["ext-plugin"] = json!({"path_for_test": "/run/tidegate-runner.sock"});
        }
    }
}

/// Of a gateway that is never reached: its ports are free ones.
fn said(
    deployment: Value,
    config: Option<&Value>,
    own_plugins: OwnPlugins,
    files: &[(&str, &str)],
) -> anyhow::Result<(Home, Said)> {
    let home = Home::create()?;
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr())?.port();
    let mut own = json!({
        "apisix": {
            "node_listen": [{"ip": "127.0.0.1", "port": port}],
            "ssl": {"enable": false},
            "enable_admin": false,
            "enable_control": false,
        },
        "deployment": deployment,
        "plugin_attr": {"prometheus": {"enable_export_server": false}},
    });
    for key in ["plugins", "stream_plugins"] {
        if let Some(list) = config.and_then(|config| config.get(key)) {
            own[key] = list.clone();
        }
    }
    own_plugins.write_to(&mut own);
    home.write(&own.to_string(), "routes: []\n#END\n")?;
    for (name, text) in files {
        let path = home.path().join("conf").join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let said = trial::test(&["--prefix".into(), home.path().into()])?;
    Ok((home, said))
}
