//! `deployment.etcd` in the store's words.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use tidegate_config::{Provider, Role, Settings};
use tidegate_model::encrypt::{Keyring, encrypted_fields};
use tidegate_plugin_api::Catalog;
use tidegate_store::etcd::{Options, Seal, TlsOptions, Unseal};

pub(super) fn options(settings: &Settings, catalog: &Arc<Catalog>) -> Options {
    let etcd = &settings.etcd;
    let (encrypt, decrypt) = seals(settings, catalog);
    Options {
        hosts: etcd.hosts.clone(),
        prefix: etcd.prefix.clone(),
        timeout: etcd.timeout,
        resync_delay: etcd.resync_delay,
        startup_retry: etcd.startup_retry,
        user: etcd.user.clone().zip(etcd.password.clone()),
        tls: tls(settings),
        snapshot: snapshot(settings),
        placeholders: settings.role != Role::DataPlane,
        check: super::file_check::check(catalog),
        encrypt,
        decrypt,
    }
}

/// For a trial: nothing in etcd changes, and the snapshot on disk stays what the running gateway makes of it.
pub(super) fn without_writing(options: Options) -> anyhow::Result<Options> {
    let snapshot = trial_snapshot();
    if options.snapshot.exists() {
        std::fs::copy(&options.snapshot, &snapshot)
            .with_context(|| format!("cannot copy {}", options.snapshot.display()))?;
    }
    Ok(Options { placeholders: false, snapshot, ..options })
}

pub(super) fn snapshot(settings: &Settings) -> PathBuf {
    settings.files.database.with_file_name("etcd.snapshot")
}

/// What a trial leaves behind.
pub(super) fn remove_trial_snapshot(settings: &Settings) {
    if settings.provider == Provider::Etcd {
        // There need not have been one.
        let _ = std::fs::remove_file(trial_snapshot());
    }
}

/// Where a trial has its copy of the snapshot.
pub(super) fn trial_snapshot() -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-test-{}.snapshot", std::process::id()))
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

/// Secret fields are in etcd as APISIX writes them: private keys always, fields of plugins as configured.
fn seals(settings: &Settings, catalog: &Arc<Catalog>) -> (Option<Seal>, Unseal) {
    let keyring = super::encryption::keyring(settings);
    let is_on = keyring.is_some();
    let keyring = keyring.unwrap_or_else(Keyring::empty);
    let fields = settings.apisix.data_encryption.enable_encrypt_fields;
    let keyring = Arc::new(if fields { keyring } else { Keyring::for_private_keys_only(keyring) });
    let (other, catalogs) = (keyring.clone(), (catalog.clone(), catalog.clone()));
    let sealed = Arc::new(Sealed::default());
    let known = sealed.clone();
    let encrypt: Seal = Box::new(move |kind, id, value| {
        keyring.encrypt_resource_but(kind, id, value, catalogs.0.as_ref(), &|text| known.has(text));
    });
    let decrypt: Unseal = Box::new(move |kind, id, value| {
        let left = other.decrypt_resource(kind, id, value, catalogs.1.as_ref());
        if !left.is_empty() {
            let texts = encrypted_fields(kind, id, value, catalogs.1.as_ref()).into_iter();
            texts.filter(|(place, _)| left.contains(place)).for_each(|(_, text)| sealed.add(text));
        }
        left
    });
    (is_on.then_some(encrypt), decrypt)
}

/// Texts that came encrypted, it seems, and that no key decrypts: they go back as they came, into etcd and into the last
/// good copy. Encrypted a second time, they would be secrets that the old key opens to its own encrypted texts.
#[derive(Default)]
struct Sealed(Mutex<HashSet<String>>);

impl Sealed {
    /// Further ones are encrypted again.
    const MOST: usize = 10_000;

    fn add(&self, text: String) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() < Self::MOST {
            texts.insert(text);
        }
    }

    fn has(&self, text: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(text)
    }
}
