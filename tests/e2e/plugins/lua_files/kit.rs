//! A gateway with plugins in files.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Message};

pub(super) struct Fixture {
    pub(super) gateway: Gateway,
    pub(super) folder: tempfile::TempDir,
}

/// Puts files into a folder.
pub(super) fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

/// config.yaml with these plugins, which are looked for in the folder. `more` goes below `plugin_attr`.
pub(super) fn config(base: &str, folder: &Path, plugins: &[&str], more: &str) -> String {
    let path = format!("apisix:\n  extra_lua_path: {}/?.lua\n", folder.display());
    let base = base.replacen("apisix:\n", &path, 1);
    format!("{base}{more}plugins: [{}]\n", plugins.join(", "))
}

impl Fixture {
    /// `objects` as in apisix.yaml.
    pub(super) fn start(files: &[(&str, &str)], plugins: &[&str], more: &str, objects: &Value) -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), files);
        let config = config(YAML_PROVIDER, folder.path(), plugins, more);
        Fixture { gateway: Gateway::start(&config, Some(&objects.to_string())), folder }
    }

    pub(super) fn with_admin(files: &[(&str, &str)], plugins: &[&str], more: &str) -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), files);
        let config = config(EMBEDDED, folder.path(), plugins, more);
        Fixture { gateway: Gateway::start(&config, None), folder }
    }
}

pub(super) fn send(gateway: &Gateway, text: &str) -> Message {
    gateway.client().request(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(super) fn get(gateway: &Gateway, path: &str) -> Message {
    send(gateway, &format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"))
}
