//! What config.yaml names and the settings alone cannot tell: plugins, files with certificates, cipher suites. Each
//! fault has the file, the line and the key.

use anyhow::anyhow;
use config::{Loaded, Places, Provider, Settings};
use rustls::sign::CertifiedKey;

/// The first fault that keeps the gateway from starting.
pub fn check(loaded: &Loaded) -> anyhow::Result<()> {
    let (settings, places) = (&loaded.settings, &loaded.places);
    let fault =
        |(key, reason): (&str, String)| anyhow!("{}", places.message(key, &format!("{key}: {reason}")));
    discovery::check(&settings.discovery)
        .map_err(|reason| anyhow!("{}", places.message("discovery", &reason)))?;
    ciphers(settings).map_err(fault)?;
    authorities(settings).map_err(fault)?;
    etcd_pair(settings).map_err(fault)?;
    super::admin_tls::check(settings).map_err(fault)
}

/// What starts nevertheless, ready to print.
pub fn warnings(loaded: &Loaded) -> Vec<String> {
    let (settings, places) = (&loaded.settings, &loaded.places);
    absent_plugins(settings, places).into_iter().chain(unread_resources(settings, places)).collect()
}

/// In API-driven mode a file with resources is easily taken for what is served.
fn unread_resources(settings: &Settings, places: &Places) -> Option<String> {
    if settings.provider != Provider::ApiDriven {
        return None;
    }
    let files = [&settings.files.resources_yaml, &settings.files.resources_json];
    let file = files.into_iter().find(|file| file.exists())?;
    let format = file.extension().map(|format| format.display().to_string()).unwrap_or_default();
    let text = format!(
        "{} is not read: with role traditional the configuration comes with PUT /apisix/admin/configs; to serve the file \
         set deployment.role: data_plane and deployment.role_data_plane.config_provider: {format}",
        file.display()
    );
    Some(places.message("deployment.role_traditional.config_provider", &text))
}

/// One line for all names of the user's list that are not here: routes that use them are refused.
fn absent_plugins(settings: &Settings, places: &Places) -> Option<String> {
    let here = |name: &&String| plugins::registry::PLUGINS.iter().any(|plugin| plugin.name == name.as_str());
    let absent: Vec<&str> = settings.plugins.iter().filter(|name| !here(name)).map(String::as_str).collect();
    if absent.is_empty() {
        return None;
    }
    let text = format!(
        "plugins: {} of {} are not here, and objects that use them are refused: {}",
        absent.len(),
        settings.plugins.len(),
        absent.join(", ")
    );
    Some(places.message("plugins", &text))
}

/// A key of config.yaml, and what is wrong with what it names.
pub type Fault = (&'static str, String);

fn ciphers(settings: &Settings) -> Result<(), Fault> {
    let tls = &settings.apisix.tls;
    if !tls.enable || !tls.protocols.iter().any(|version| version == "TLSv1.2") {
        return Ok(());
    }
    compile::check_ciphers(&tls.ciphers).map_err(|reason| ("apisix.ssl.ssl_ciphers", reason))
}

fn authorities(settings: &Settings) -> Result<(), Fault> {
    let Some(setting) = &settings.apisix.tls.trusted_certificate else { return Ok(()) };
    trust::Anchors::from_setting(setting, &settings.files.prefix)
        .map(|_| ())
        .map_err(|reason| ("apisix.ssl.ssl_trusted_certificate", reason))
}

fn etcd_pair(settings: &Settings) -> Result<(), Fault> {
    let tls = &settings.etcd.tls;
    let (Some(certificate), Some(key)) = (&tls.cert, &tls.key) else { return Ok(()) };
    if settings.provider != Provider::Etcd {
        return Ok(());
    }
    pair(settings, ("deployment.etcd.tls.cert", certificate), ("deployment.etcd.tls.key", key)).map(|_| ())
}

/// Certificate chain and key from the files of two keys of config.yaml.
pub fn pair(
    settings: &Settings,
    (certificate_name, certificate): (&'static str, &str),
    (key_name, key): (&'static str, &str),
) -> Result<CertifiedKey, Fault> {
    let chain = read(settings, certificate_name, certificate)?;
    let pem = read(settings, key_name, key)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    trust::certified_key(&provider, &chain, &pem).map_err(|error| match error.starts_with("certificate:") {
        true => (certificate_name, format!("{certificate}: {error}")),
        false => (key_name, format!("{key}: {error}; give the PEM key of {certificate}")),
    })
}

/// The content of a file that a key of config.yaml names.
pub fn read(settings: &Settings, name: &'static str, path: &str) -> Result<Vec<u8>, Fault> {
    let path = settings.below_prefix(path);
    std::fs::read(&path).map_err(|error| (name, format!("cannot read {}: {error}", path.display())))
}
