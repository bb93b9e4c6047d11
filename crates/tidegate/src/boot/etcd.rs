//! `deployment.etcd` in the store's words.

use std::{path::PathBuf, sync::Arc};

use config::{Role, Settings};
use model::{Kind, PluginCatalog, SchemaKind, catalog::PluginFacts, encrypt::Keyring};
use plugin::Catalog;
use serde_json::Value;
use store::etcd::{Options, Seal, TlsOptions};

pub fn options(settings: &Settings, catalog: &Arc<Catalog>) -> Options {
    let etcd = &settings.etcd;
    let (encrypt, decrypt) = seals(settings, catalog).unzip();
    Options {
        hosts: etcd.hosts.clone(),
        prefix: etcd.prefix.clone(),
        timeout: etcd.timeout,
        resync_delay: etcd.resync_delay,
        startup_retry: etcd.startup_retry,
        user: etcd.user.clone().zip(etcd.password.clone()),
        tls: tls(settings),
        snapshot: settings.files.database.with_file_name("etcd.snapshot"),
        placeholders: settings.role != Role::DataPlane,
        check: check(catalog),
        encrypt,
        decrypt,
    }
}

fn tls(settings: &Settings) -> TlsOptions {
    let tls = &settings.etcd.tls;
    let path = |path: &String| settings.below_prefix(path);
    let authorities = settings.apisix.tls.trusted_certificate.as_deref().unwrap_or_default();
    let authorities = authorities.split(',').map(str::trim).filter(|name| !name.is_empty());
    TlsOptions {
        client: tls.cert.as_ref().map(path).zip(tls.key.as_ref().map(path)),
        verify: tls.verify,
        sni: tls.sni.clone(),
        authorities: authorities
            .filter(|name| *name != "system")
            .map(PathBuf::from)
            .map(|path| settings.files.prefix.join(path))
            .collect(),
    }
}

/// What a value must pass to be used. Plugins that are off, or that only APISIX has, do not make it bad: whoever
/// compiles it decides, and the Admin API goes on showing it.
fn check(catalog: &Arc<Catalog>) -> store::file::Check {
    let catalog = Lenient(catalog.clone());
    Box::new(move |kind: Kind, id: &str, value: &Value| {
        super::administration::check_object(&catalog, kind, id, value)
    })
}

struct Lenient(Arc<Catalog>);

impl PluginCatalog for Lenient {
    fn facts(&self, name: &str) -> Option<PluginFacts<'_>> {
        self.0.as_ref().facts(name)
    }

    fn is_enabled(&self, _: &str) -> bool {
        true
    }

    fn enabled(&self) -> Vec<&str> {
        PluginCatalog::enabled(self.0.as_ref())
    }

    fn check(&self, name: &str, kind: SchemaKind, conf: &mut Value) -> Result<(), String> {
        if !self.0.is_enabled(name) {
            return Ok(());
        }
        self.0.check(name, kind, conf)
    }
}

/// Secret fields are in etcd as APISIX writes them: private keys always, fields of plugins as configured.
fn seals(settings: &Settings, catalog: &Arc<Catalog>) -> Option<(Seal, Seal)> {
    let keyring = super::provider::keyring(settings)?;
    let fields = settings.apisix.data_encryption.enable_encrypt_fields;
    let keyring = Arc::new(if fields { keyring } else { Keyring::for_private_keys_only(keyring) });
    let (other, catalogs) = (keyring.clone(), (catalog.clone(), catalog.clone()));
    let encrypt: Seal = Box::new(move |kind, id, value| {
        keyring.encrypt_resource(kind, id, value, catalogs.0.as_ref());
    });
    let decrypt: Seal = Box::new(move |kind, id, value| {
        other.decrypt_resource(kind, id, value, catalogs.1.as_ref());
    });
    Some((encrypt, decrypt))
}
