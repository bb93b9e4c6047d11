//! The Admin and Control API of this process, on their own ports or on a data port.

mod data_port;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use anyhow::Context;
use ipnet::IpNet;
use serde_json::Value;
use tidegate_admin::{
    AdminApi, AdminSettings, ApiVersion, Audit, Compiled, ControlApi, ControlHooks, ControlParts, Hooks,
    Hosts, Parts, Role, Standalone, listener::Bounds,
};
use tidegate_config::{
    Settings,
    settings::{Access, AdminKey, AdminRole},
};
use tidegate_model::{
    Kind, Object, Objects, PluginCatalog, Rejected,
    check::{Context as CheckContext, Languages, LuaChunk, LuaFault, NoReferences},
};
use tidegate_plugin_api::{Catalog, Variable};
use tidegate_proxy::Internal;
use tidegate_routing::expr::Expression;
use tidegate_store::{ApiDriven, BoxFuture, Store as _};
use tokio::runtime::Runtime;

use super::{
    commands,
    control::Control,
    data_plane,
    hooks::{ProcessHooks, UntilCompiled},
    logs::Logs,
    notices,
    provider::Provider,
    sockets::Sockets,
};

/// `apisix.control.port`
const DEFAULT_CONTROL_PORT: u16 = 9090;

pub struct Apis {
    admin: Option<Arc<AdminApi>>,
    pub hooks: Arc<ProcessHooks>,
    control: Arc<ControlApi>,
}

/// Checks texts of other languages inside resources.
pub struct Checks;

impl Languages for Checks {
    fn expression(&self, vars: &Value) -> Result<(), String> {
        Expression::compile(vars, &mut |name| Variable::resolve(name))?;
        check_body_paths(vars)
    }

    fn lua(&self, chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
        tidegate_plugins::check_lua(chunk, source)
    }

    fn proto(&self, content: &str) -> Result<(), String> {
        tidegate_plugins::check_proto(content)
    }
}

/// As [`Checks`], but a script that is not a table does nothing instead of being refused.
struct FileChecks;

impl Languages for FileChecks {
    fn expression(&self, vars: &Value) -> Result<(), String> {
        Checks.expression(vars)
    }

    fn lua(&self, chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
        match Checks.lua(chunk, source) {
            Err(LuaFault::WrongKind) if chunk == LuaChunk::Script => Ok(()),
            checked => checked,
        }
    }

    fn proto(&self, content: &str) -> Result<(), String> {
        Checks.proto(content)
    }
}

/// Every `["post_arg.PATH", operator, value]` has to name a path that can be followed.
fn check_body_paths(vars: &Value) -> Result<(), String> {
    let Value::Array(items) = vars else { return Ok(()) };
    let path = items.first().and_then(Value::as_str).and_then(|name| name.strip_prefix("post_arg."));
    match path {
        Some(path) if items.len() >= 3 => tidegate_plugin_api::variables::json_path::check(path),
        _ => items.iter().try_for_each(check_body_paths),
    }
}

/// Checks one object of a resource file; references may point anywhere, files have no order.
pub fn check_object(catalog: &dyn PluginCatalog, kind: Kind, id: &str, value: &Value) -> Result<(), String> {
    let context = CheckContext {
        plugins: catalog,
        stream_plugins: None,
        languages: &FileChecks,
        references: &NoReferences,
        skip_references: true,
        protocols: &[],
    };
    let (owner, id) = match id.split_once("/credentials/") {
        Some((owner, id)) => (Some(owner), id),
        None => (None, id),
    };
    tidegate_model::check::check_resource(&context, kind, Some(id), owner, &mut value.clone())
}

impl Apis {
    pub fn new(
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
        let standalone = provider.api_driven().map(|store| {
            Arc::new(ApiDrivenView { store: store.clone(), compiled: compiled.clone() })
                as Arc<dyn Standalone>
        });
        let hooks = Arc::new(ProcessHooks::new(
            control,
            compiled,
            store.clone(),
            catalog,
            data_plane::reading(settings)?,
            commands::path(&settings.files.pid),
        ));
        let admin = settings.admin.listen.is_some().then(|| {
            Arc::new(AdminApi::new(Parts {
                settings: admin_settings(settings),
                store: store.clone(),
                plugins: plugins.clone(),
                stream_plugins: None,
                languages: Arc::new(Checks),
                hooks: hooks.clone() as Arc<dyn Hooks>,
                standalone,
                audit: audit.clone(),
                compiled: Arc::new(CompiledView(control.clone())),
            }))
        });
        let compiled = Arc::new(CompiledView(control.clone()));
        let embedded = matches!(provider.as_ref(), Provider::Embedded(_) | Provider::LastGood(_));
        let database = embedded || provider.etcd().is_some();
        let control = Arc::new(ControlApi::new(ControlParts {
            key_prefix: if database { settings.etcd.prefix.clone() } else { String::new() },
            server: if settings.apisix.enable_server_tokens { "APISIX/3.18.0" } else { "APISIX" },
            store,
            plugins,
            stream_plugins: None,
            health: control.health.clone(),
            hooks: control.nodes.clone() as Arc<dyn ControlHooks>,
            audit,
            compiled,
            hosts: hosts(settings),
        }));
        Ok(Arc::new(Apis { admin, hooks, control }))
    }

    pub fn on_data_plane(self: &Arc<Apis>, settings: &Settings) -> Option<Arc<dyn Internal>> {
        let admin = self.admin.clone().filter(|_| settings.shared_with_admin().next().is_some())?;
        let at = data_plane::address(settings.admin.listen.as_ref()?).ok()?;
        Some(Arc::new(data_port::OnDataPort { admin, at }))
    }

    /// Opens the ports of the APIs. Returns where the Control API is.
    pub fn listen(
        self: &Arc<Apis>,
        settings: &Settings,
        runtime: &Runtime,
        sockets: &Sockets,
    ) -> anyhow::Result<Option<SocketAddr>> {
        if let Some(listener) =
            settings.admin.listen.as_ref().filter(|_| settings.shared_with_admin().next().is_none())
            && let Some(admin) = &self.admin
        {
            let address = data_plane::address(listener)?;
            let socket = sockets
                .bind(address)
                .with_context(|| format!("cannot listen on {address} (deployment.admin.admin_listen)"))?;
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
        let address = data_plane::address(listener)?;
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
            // Two gateways on one machine, neither told where: traffic matters more than the second's API.
            Err(error) if address.port() == DEFAULT_CONTROL_PORT => {
                notices::warn(&format!(
                    "no Control API: cannot listen on {address}: {error}; set apisix.control"
                ));
                Ok(None)
            }
            Err(error) => Err(error).context(format!("cannot listen on {address} (apisix.control)")),
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
        // TCP and UDP are not proxied: a stream route would wait for connections that never come.
        stream: false,
        server_tokens: settings.apisix.enable_server_tokens,
        matching: super::idle_fields::matching(settings),
        protocols: Vec::new(),
        keyring: super::provider::keyring(settings).map(Arc::new),
    }
}

/// What an API that asks for no key answers to. A listener may be given by a name, too.
fn hosts(settings: &Settings) -> Hosts {
    let listeners = settings.apisix.control.iter().chain(&settings.admin.listen);
    let names = listeners.map(|listener| listener.ip.clone()).chain(settings.apisix.control_hosts.clone());
    Hosts::new(names, "apisix.control.hosts")
}

/// `deployment.admin.allow_admin`.
fn allowed(settings: &Settings) -> Option<Vec<IpNet>> {
    // What cannot be read lets nobody in: a list that is left with nothing is still a list.
    let network = |text: &String| text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(Into::into));
    settings.admin.allow.as_ref().map(|list| list.iter().filter_map(network).map(canonical).collect())
}

/// An IPv4-mapped network is its IPv4 network, as peers are compared: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(wide) = network else { return network };
    let mapped = wide.network().to_ipv4_mapped().zip(wide.prefix_len().checked_sub(96));
    mapped.and_then(|(address, length)| IpNet::new(address.into(), length).ok()).unwrap_or(network)
}

/// `None` while the key is not known: no request can have it.
fn admin_key(key: &AdminKey) -> Option<tidegate_admin::AdminKey> {
    let role = match key.role {
        AdminRole::Admin => Role::Admin,
        AdminRole::Viewer => Role::Viewer,
    };
    tidegate_admin::AdminKey::new(&key.name, key.value()?, role)
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

/// What a listener that is not the data plane's bears.
pub fn bounds(settings: &Settings) -> Bounds {
    let limits = &settings.admin.limits;
    Bounds {
        connections: limits.connections,
        connections_per_address: limits.connections_per_address,
        // Without a list nobody is on it, although everybody may ask; nor is a network of everybody a list.
        listed: allowed(settings).into_iter().flatten().filter(|network| network.prefix_len() > 0).collect(),
        head: limits.header_timeout,
        body: limits.body_timeout,
        idle: limits.keepalive_timeout,
        send: settings.nginx.timeouts.send,
        large_bodies: limits.large_bodies,
    }
}
