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
    let said = said_of_file(file, text, config, lua_path(config, file))?;
    let all = resources::count(document);
    let seen = format!("{} of {all} can be used", all.saturating_sub(said.unusable()));
    Ok(checks(&said, seen))
}

/// What a start with this file, and the plugins of `config`, would say of its objects, with places in `file`. `lua_path`: where the
/// plugins in files are.
pub(in crate::cli) fn said_of_file(
    file: &Path,
    text: &str,
    config: Option<&Value>,
    lua_path: Option<String>,
) -> anyhow::Result<Said> {
    let is_json = file.extension().is_some_and(|ending| ending == "json");
    let (provider, name) = if is_json { ("json", "apisix.json") } else { ("yaml", "apisix.yaml") };
    let deployment = json!({"role": "data_plane", "role_data_plane": {"config_provider": provider}});
    let (home, mut said) = said(deployment, config, lua_path, &[(name, text)])?;
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
    let (_home, mut said) = said(deployment, None, None, &[])?;
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

/// Where the plugins in files are, of a config.yaml beside `file`, or in the folder `conf` with it.
pub(in crate::cli) fn lua_path(config: Option<&Value>, file: &Path) -> Option<String> {
    let path = config?.pointer("/apisix/extra_lua_path")?.as_str()?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let prefix = folder.parent().filter(|_| folder.ends_with("conf")).unwrap_or(folder);
    let absolute = |template: &str| prefix.join(template.trim()).display().to_string();
    Some(
        path.split(';')
            .filter(|template| !template.trim().is_empty())
            .map(absolute)
            .collect::<Vec<_>>()
            .join(";"),
    )
}

/// Of a gateway that is never reached: its ports are free ones.
fn said(
    deployment: Value,
    config: Option<&Value>,
    lua_path: Option<String>,
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
    if let Some(path) = lua_path {
        own["apisix"]["extra_lua_path"] = path.into();
    }
    home.write(&own.to_string(), "routes: []\n#END\n")?;
    for (name, text) in files {
        let path = home.path().join("conf").join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let said = trial::test(&["--prefix".into(), home.path().into()])?;
    Ok((home, said))
}
