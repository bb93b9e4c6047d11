//! A configuration that was there and is gone: an emptied config.yaml, and a changed one that leads to an empty store. Either would
//! serve as if nothing had ever been guarded.

use std::path::PathBuf;

use tidegate_config::{Provider as Kind, Settings};

use super::{provider::Provider, reload};

/// Files below data/ that a gateway makes as it serves.
const SIGNS: [&str; 5] =
    ["tidegate.redb", "tidegate.created", "tidegate.last-good", "etcd.snapshot", "admin.key"];

/// Why a start would serve with the defaults what needs a config.yaml. `None`: it may.
pub(crate) fn emptied(settings: &Settings) -> Option<String> {
    if !settings.places.is_emptied() {
        return None;
    }
    let sign = signs(settings).find(|path| path.symlink_metadata().is_ok())?;
    let shown = settings.files.config.display();
    Some(format!(
        "{shown} is empty, and {} shows that this gateway has been in use: the defaults have none of its keys and guards; restore {shown}, \
         or write {{}} into it to start with the defaults",
        sign.display()
    ))
}

fn signs(settings: &Settings) -> impl Iterator<Item = PathBuf> {
    let data = settings.files.prefix.join("data");
    let resources = match settings.provider {
        // The environment says so: they are read.
        Kind::Yaml | Kind::Json => Vec::new(),
        _ => vec![settings.files.resources_yaml.clone(), settings.files.resources_json.clone()],
    };
    SIGNS.into_iter().map(move |name| data.join(name)).chain(resources)
}

/// Why a new process with these settings may not take over without an object: they name another store than that of this process,
/// which has some.
pub(super) fn other_store(
    provider: &Provider,
    running: &serde_json::Value,
    settings: &Settings,
) -> Option<String> {
    let objects = provider.count_objects();
    let changed = reload::changed_keys(running, &settings.raw);
    let names_store = |key: &&String| {
        key.starts_with("deployment.role")
            || key.as_str() == "deployment.etcd"
            || key.as_str() == "deployment"
    };
    let key = changed.iter().find(names_store).filter(|_| objects > 0)?;
    let objects = match objects {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    };
    let text = format!(
        "{key} leads to a configuration without objects, and {objects} are served now; correct it, or bring them there first \
         (`tidegate config export` and `import`); --force serves the empty one"
    );
    Some(settings.places.message(key, &text))
}
