//! Addresses of the names that upstreams use: resolved ahead of requests, kept fresh, never waited for by one.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tidegate_clients::names;
use tidegate_compiler::Addresses;
use tidegate_config::Settings;
use tidegate_probes::{Domains, Lookup, LookupError, MOST_ADDRESSES, SystemLookup, SystemLookupOptions};
use tidegate_telemetry::error_log;
use tokio::{runtime::Runtime, sync::watch};

use super::name_failures::{Failures, Reporting};

pub(super) struct Names {
    domains: Domains,
    failures: Arc<Failures>,
    /// What the compiler has got.
    told: Mutex<BTreeMap<Arc<str>, Arc<[IpAddr]>>>,
}

/// Answers nothing: there is no name server on this machine.
struct NoServer(String);

impl Lookup for NoServer {
    fn lookup<'a>(
        &'a self,
        name: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<tidegate_probes::ResolvedName, LookupError>> + Send + 'a>>
    {
        Box::pin(async move {
            // The system's own resolver still knows /etc/hosts.
            let found = names::of_system(name).await;
            let addresses =
                found.map_err(|error| LookupError { reason: format!("{}; {error}", self.0), gone: false })?;
            Ok(tidegate_probes::ResolvedName { addresses, valid_for: Duration::from_secs(60) })
        })
    }
}

/// For hosts that plugins, registries and managers of secrets name.
struct OfServices(Arc<dyn Lookup>);

impl names::NameServers for OfServices {
    fn look_up(&self, host: Arc<str>) -> names::Lookup {
        const REMEDY: &str = "; correct the name, or set apisix.dns_resolver to a server that knows it";
        let lookup = self.0.clone();
        let failure = |error: LookupError| names::Failure {
            keeps_for: error.keeps_for(),
            reason: format!("{}{REMEDY}", error.reason),
        };
        Box::pin(async move {
            let found = lookup.lookup(&host).await.map_err(failure)?;
            if found.addresses.is_empty() {
                let reason = "the name has no address".to_owned();
                return Err(failure(LookupError { reason, gone: true }));
            }
            let mut addresses = found.addresses;
            addresses.truncate(MOST_ADDRESSES);
            Ok(names::Answer { addresses, valid_for: found.valid_for })
        })
    }
}

impl Names {
    pub(super) fn start(settings: &Settings, runtime: &Runtime) -> Arc<Names> {
        let apisix = &settings.apisix;
        let servers = apisix
            .dns_resolver
            .iter()
            .filter_map(|text| tidegate_config::keys::forms::name_server(text))
            .collect();
        let options = SystemLookupOptions {
            servers,
            valid_s: apisix.dns_resolver_valid.map(|valid| valid.as_secs()),
            timeout_ms: apisix.resolver_timeout.as_millis() as u64,
            search: apisix.enable_resolv_search_opt,
            ipv6: apisix.enable_ipv6,
        };
        let lookup: Arc<dyn Lookup> = {
            let _entered = runtime.enter();
            match SystemLookup::new(options) {
                Ok(lookup) => Arc::new(lookup),
                Err(reason) => {
                    error_log::log(
                        error_log::Level::Warn,
                        format_args!("names are resolved by the system: {reason}"),
                    );
                    Arc::new(NoServer(reason))
                }
            }
        };
        names::install(OfServices(lookup.clone()), runtime.handle().clone());
        let failures = Arc::new(Failures::default());
        let lookup = Arc::new(Reporting { lookup, failures: failures.clone() });
        let domains = Domains::new(runtime.handle().clone(), lookup);
        Arc::new(Names { domains, failures, told: Mutex::default() })
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.domains.changes()
    }

    /// Keeps these names resolved, and no others. Waits for new ones, for at most `patience`. Each comes with its
    /// users, for the log.
    pub(super) async fn want(&self, users: BTreeMap<Arc<str>, String>, patience: Duration) {
        let names: Vec<Arc<str>> = users.keys().cloned().collect();
        self.failures.want(users);
        self.domains.want(names.iter().map(AsRef::as_ref));
        if !names.is_empty() {
            let _ = tokio::time::timeout(patience, self.domains.wait_until_resolved()).await;
        }
    }

    /// The names whose addresses differ from what the compiler got before.
    pub(super) fn take_changed(&self, names: &[Arc<str>]) -> Vec<Arc<str>> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        let mut next = BTreeMap::new();
        for name in names {
            let addresses = self.domains.addresses(name);
            if told.get(name).map_or(!addresses.is_empty(), |old| *old != addresses) {
                changed.push(name.clone());
                if addresses.is_empty() {
                    let why = self.domains.error(name).unwrap_or_default();
                    error_log::log(
                        error_log::Level::Error,
                        format_args!("the last addresses of {name} are no longer used: {why}"),
                    );
                }
            }
            next.insert(name.clone(), addresses);
        }
        *told = next;
        changed
    }
}

impl Addresses for Names {
    fn of(&self, host: &str) -> Option<Vec<IpAddr>> {
        let addresses = self.domains.addresses(host);
        (!addresses.is_empty()).then(|| addresses.to_vec())
    }
}
