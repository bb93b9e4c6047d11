//! `deployment.etcd` in the store's words, and what the metrics page says about etcd.

use std::{path::PathBuf, sync::Arc};

use config::{Role, Settings};
use model::{Kind, PluginCatalog, SchemaKind, catalog::PluginFacts, encrypt::Keyring};
use plugin::Catalog;
use serde_json::Value;
use store::etcd::{Options, Seal, TlsOptions};
use telemetry::metrics::{Kind as MetricKind, TextWriter};

use super::control::Control;

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

/// Directories with an index of their own on the metrics page, as in APISIX; nested objects count for theirs.
const INDEXED: [&str; 8] =
    ["consumers", "global_rules", "protos", "routes", "services", "ssls", "stream_routes", "upstreams"];

/// `etcd_reachable` and `etcd_modify_indexes`. Without etcd there is nothing that could be out of reach.
pub fn collect(writer: &mut TextWriter, prefix: &str, control: &Control) {
    let etcd = control.provider.etcd();
    let reachable = format!("{prefix}etcd_reachable");
    let about = "Config server etcd reachable from APISIX, 0 is unreachable";
    writer.family(&reachable, about, MetricKind::Gauge);
    writer.sample(&reachable, &[], f64::from(u8::from(etcd.is_none_or(|etcd| etcd.is_reachable()))));

    let indexes = format!("{prefix}etcd_modify_indexes");
    writer.family(&indexes, "Modify index of the configuration in force", MetricKind::Gauge);
    let Some(etcd) = etcd else {
        writer.sample(&indexes, &[("key", "max_modify_index")], control.revision() as f64);
        return;
    };
    let mut newest = [0; INDEXED.len()];
    let mut revision = 0;
    control.provider.store().read(&mut |state| {
        revision = state.revision;
        for object in state.all() {
            let place = INDEXED.iter().position(|name| *name == object.kind.directory());
            if let Some(index) = place.and_then(|place| newest.get_mut(place)) {
                *index = object.modified.max(*index);
            }
        }
    });
    let most = newest.iter().copied().max().unwrap_or(0);
    let all =
        [("max_modify_index", most), ("prev_index", revision), ("x_etcd_index", etcd.cluster_revision())];
    for (key, index) in INDEXED.into_iter().zip(newest).chain(all) {
        writer.sample(&indexes, &[("key", key)], index as f64);
    }
}
