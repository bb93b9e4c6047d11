//! The Admin and Control API of this process, on their own ports or on a data port.

mod console_sign_in;
mod data_port;
mod inspect;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    sync::Arc,
};

use anyhow::Context;
use serde_json::Value;
use tidegate_admin::{
    AdminApi, AdminSettings, ApiVersion, Audit, Compiled, ControlApi, ControlHooks, ControlParts, Hooks,
    Hosts, Inspect, Mode, OwnPorts, Parts, Remark, Role, Scope, Standalone,
};
use tidegate_config::{
    Settings,
    settings::{Access, AdminKey, AdminRole},
};
use tidegate_model::{Object, Objects, PluginCatalog, Rejected};
use tidegate_plugin_api::Catalog;
use tidegate_proxy::Internal;
use tidegate_store::{ApiDriven, BoxFuture, Store as _};
use tokio::runtime::Runtime;

use super::{
    bounds::{allowed, bounds},
    commands,
    control::Control,
    hooks::{ProcessHooks, UntilCompiled},
    languages::Checks,
    logs::Logs,
    notices,
    provider::Provider,
    sockets::Sockets,
};

/// `apisix.control.port`
const DEFAULT_CONTROL_PORT: u16 = 9090;

pub(super) struct Apis {
    admin: Option<Arc<AdminApi>>,
    pub hooks: Arc<ProcessHooks>,
    control: Arc<ControlApi>,
}

impl Apis {
    pub(super) fn new(
        settings: &Settings,
        catalog: &Arc<Catalog>,
        provider: &Arc<Provider>,
        control: &Arc<Control>,
        logs: &Logs,
    ) -> anyhow::Result<Arc<Apis>> {
        let audit = logs.audit.clone().map(|sink| Arc::new(Audit::new(sink)));
        let at_most = settings.admin.limits.compile_timeout;
        let compiled = UntilCompiled { published: control.published.clone(), at_most };
        let store = provider.store();
        let plugins: Arc<dyn PluginCatalog> = catalog.clone();
        let stream_plugins =
            super::catalogs::stream_catalog(settings)?.map(|catalog| catalog as Arc<dyn PluginCatalog>);
        let standalone = provider.api_driven().map(|store| {
            Arc::new(ApiDrivenView { store: store.clone(), compiled: compiled.clone() })
                as Arc<dyn Standalone>
        });
        let view: Arc<dyn Compiled> = Arc::new(CompiledView(control.clone()));
        let control_api = Arc::new(ControlApi::new(ControlParts {
            key_prefix: provider.key_prefix(&settings.etcd.prefix),
            server: if settings.apisix.enable_server_tokens { "APISIX/3.18.0" } else { "APISIX" },
            store: store.clone(),
            plugins: plugins.clone(),
            stream_plugins: stream_plugins.clone(),
            health: control.health.clone(),
            hooks: control.nodes.clone() as Arc<dyn ControlHooks>,
            audit: audit.clone(),
            compiled: view.clone(),
            hosts: hosts(settings),
            inspect: settings.apisix.profiling.then(|| Arc::new(inspect::OwnProcess) as Arc<dyn Inspect>),
        }));
        let hooks = Arc::new(ProcessHooks::new(
            control,
            compiled,
            store.clone(),
            catalog,
            (super::addresses::reading(settings)?, super::explain::Ports::of(settings)),
            commands::path(&settings.files.pid),
            control_api.clone(),
        ));
        let mut admin_settings = admin_settings(settings);
        admin_settings.own_ports = own_ports(settings)?;
        admin_settings.oidc =
            settings.admin.oidc.as_ref().map(|oidc| console_sign_in::oidc(oidc, &store)).transpose()?;
        let admin = settings.admin.listen.is_some().then(|| {
            Arc::new(AdminApi::new(Parts {
                settings: admin_settings,
                store,
                plugins,
                stream_plugins,
                languages: Arc::new(Checks),
                hooks: hooks.clone() as Arc<dyn Hooks>,
                standalone,
                audit,
                compiled: view,
            }))
        });
        Ok(Arc::new(Apis { admin, hooks, control: control_api }))
    }

    pub(super) fn on_data_plane(self: &Arc<Apis>, settings: &Settings) -> Option<Arc<dyn Internal>> {
        let admin = self.admin.clone().filter(|_| settings.shared_with_admin().next().is_some())?;
        let at = super::addresses::address(settings.admin.listen.as_ref()?).ok()?;
        Some(Arc::new(data_port::OnDataPort {
            admin,
            at,
            believes_nobody: tidegate_config::believes_all(settings),
        }))
    }

    /// Opens the ports of the APIs. Returns where the Control API is.
    pub(super) fn listen(
        self: &Arc<Apis>,
        settings: &Settings,
        runtime: &Runtime,
        sockets: &Sockets,
    ) -> anyhow::Result<Option<SocketAddr>> {
        if let Some(listener) =
            settings.admin.listen.as_ref().filter(|_| settings.shared_with_admin().next().is_none())
            && let Some(admin) = &self.admin
        {
            let address = super::addresses::address(listener)?;
            let socket = sockets.bind(address).context("Admin API (deployment.admin.admin_listen)")?;
            let (admin, bounds, phase) = (admin.clone(), bounds(settings), sockets.phase());
            match (socket, super::admin_tls::accept(settings)?) {
                (None, _) => {}
                (Some(socket), Some(accept)) => {
                    sockets.spawn(
                        runtime,
                        tidegate_admin::listener::serve_with(socket, admin, accept, bounds, phase),
                    );
                }
                (Some(socket), None) => {
                    sockets.spawn(runtime, tidegate_admin::listener::serve(socket, admin, bounds, phase));
                }
            }
        }
        let Some(listener) = &settings.apisix.control else { return Ok(None) };
        let address = super::addresses::address(listener)?;
        match sockets.bind(address) {
            // Of a trial: it could be had.
            Ok(None) => Ok(Some(address)),
            Ok(Some(socket)) => {
                let (control, phase) = (self.control.clone(), sockets.phase());
                sockets.spawn(
                    runtime,
                    tidegate_admin::listener::serve(socket, control, bounds(settings), phase),
                );
                Ok(Some(address))
            }
            // Two gateways on one machine, neither with a configured address: traffic matters more than the
            // second's API.
            Err(error) if address.port() == DEFAULT_CONTROL_PORT => {
                notices::warn(&format!("no Control API: {error}; set apisix.control"));
                Ok(None)
            }
            Err(error) => Err(error).context("Control API (apisix.control)"),
        }
    }
}

fn admin_settings(settings: &Settings) -> AdminSettings {
    let admin = &settings.admin;
    AdminSettings {
        key_prefix: settings.etcd.prefix.clone(),
        access: match &admin.access {
            Access::Open => tidegate_admin::Access::Open,
            Access::Keys(keys) => tidegate_admin::Access::Keys(keys.iter().filter_map(admin_key).collect()),
        },
        version: if admin.version_2 { ApiVersion::V2 } else { ApiVersion::V3 },
        cors: admin.cors,
        hosts: hosts(settings),
        allow: allowed(settings),
        stream: settings.stream.enable,
        server_tokens: settings.apisix.enable_server_tokens,
        matching: super::compiler_options::matching(settings),
        protocols: super::catalogs::protocols(settings).iter().map(|def| def.name.to_owned()).collect(),
        keyring: super::encryption::keyring(settings).map(Arc::new),
        tls: admin.https && settings.shared_with_admin().next().is_none(),
        console: tidegate_config::admin_door::serves_console(settings),
        cookie: session_cookie(settings),
        oidc: None,
        own_ports: OwnPorts::default(),
        mode: Mode { provider: provider_name(settings), node: super::metrics::hostname() },
    }
}

/// Where anything but traffic is served.
fn own_ports(settings: &Settings) -> anyhow::Result<OwnPorts> {
    let metrics = settings.metrics_listener();
    let listeners = [
        (settings.apisix.control.as_ref(), "apisix.control"),
        (settings.admin.listen.as_ref(), "deployment.admin.admin_listen"),
        (metrics.as_ref(), "plugin_attr.prometheus.export_addr"),
        (settings.apisix.status.as_ref(), "apisix.status"),
    ];
    let given = listeners.into_iter().filter_map(|(listener, key)| Some((listener?, key)));
    let addresses = given.map(|(listener, key)| Ok((super::addresses::address(listener)?, key)));
    addresses.collect::<anyhow::Result<Vec<_>>>().map(OwnPorts::new)
}

/// Cookies do not depend on ports: without names of their own, gateways on one machine, or behind one name by `ssh -L`, would sign each other's
/// users out.
fn session_cookie(settings: &Settings) -> String {
    let mut hasher = DefaultHasher::new();
    let listener = settings.admin.listen.as_ref().map(|listener| (&listener.ip, listener.port));
    (super::metrics::hostname(), &settings.files.prefix, listener).hash(&mut hasher);
    format!("tidegate_session_{:08x}", hasher.finish() as u32)
}

fn provider_name(settings: &Settings) -> &'static str {
    match settings.provider {
        tidegate_config::Provider::Embedded => "embedded",
        tidegate_config::Provider::Etcd => "etcd",
        tidegate_config::Provider::Yaml | tidegate_config::Provider::Json => "yaml",
        tidegate_config::Provider::ApiDriven => "api",
    }
}

/// The hosts that an API without a key answers to. A listener may be given by a name, too.
fn hosts(settings: &Settings) -> Hosts {
    let listeners = settings.apisix.control.iter().chain(&settings.admin.listen);
    let names = listeners.map(|listener| listener.ip.clone()).chain(settings.apisix.control_hosts.clone());
    Hosts::new(names, "apisix.control.hosts")
}

/// `None` while the key is not known: no request can have it.
fn admin_key(key: &AdminKey) -> Option<tidegate_admin::AdminKey> {
    let role = match key.role {
        AdminRole::Admin => Role::Admin,
        AdminRole::Editor => Role::Editor,
        AdminRole::Viewer => Role::Viewer,
    };
    let scope = Scope::new(key.scope.clone());
    Some(tidegate_admin::AdminKey::new(&key.name, key.value()?, role)?.with_scope(scope))
}

fn remark(remark: tidegate_routing::router::Remark) -> Remark {
    let tidegate_routing::router::Remark { others, text, discreet } = remark;
    Remark { others, text, discreet }
}

/// The compiler as the APIs ask it.
struct CompiledView(Arc<Control>);

impl Compiled for CompiledView {
    fn try_out(&self, changed: &[Object], before: &dyn Objects, after: &dyn Objects) -> Vec<Rejected> {
        self.0.trial.rejected(changed, before, after)
    }

    fn rejected(&self) -> Arc<[Rejected]> {
        self.0.rejected.borrow().clone()
    }

    fn place(&self, route: &str) -> Vec<Remark> {
        self.0.publisher.current().router.remarks(route).into_iter().map(remark).collect()
    }

    fn places(&self, changed: &[Object], gone: &[&str], after: &dyn Objects) -> Vec<(Arc<str>, Remark)> {
        let specs = self.0.trial.specs(changed, after);
        let router = self.0.publisher.current().router.with(&specs, gone);
        let said = |id: &Arc<str>| {
            let remarks = router.remarks(id).into_iter().map(remark);
            remarks.map(|remark| (id.clone(), remark)).collect::<Vec<_>>()
        };
        specs.iter().flat_map(|spec| said(&spec.order)).collect()
    }

    fn warnings(&self) -> Arc<[Rejected]> {
        self.0.warnings.borrow().clone()
    }
}

/// The API-driven store as the Admin API asks for it.
struct ApiDrivenView {
    store: Arc<ApiDriven>,
    compiled: UntilCompiled,
}

impl Standalone for ApiDrivenView {
    fn current(&self) -> Option<Arc<Value>> {
        let document = self.store.document()?;
        let mut body = document.body;
        body.insert("X-Digest".to_owned(), Value::String(document.digest));
        body.insert("X-Last-Modified".to_owned(), Value::from(document.last_modified));
        Some(Arc::new(Value::Object(body)))
    }

    fn replace(&self, configuration: Value) -> BoxFuture<'_, Result<(), String>> {
        let compiled = self.compiled.clone();
        Box::pin(async move {
            let Value::Object(mut body) = configuration else { return Err("not an object".to_owned()) };
            let digest = body.remove("X-Digest").and_then(|digest| digest.as_str().map(str::to_owned));
            let now = body.remove("X-Last-Modified").and_then(|time| time.as_u64()).unwrap_or_default();
            self.store.replace(&body, &digest.unwrap_or_default(), now)?;
            let mut revision = 0;
            self.store.read(&mut |state| revision = state.revision);
            compiled.wait(revision).await;
            Ok(())
        })
    }
}
