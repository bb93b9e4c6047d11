//! Routes: merged with their plugin config and service, and what the router needs of them.

mod nowhere;
mod place;
pub(crate) mod table;

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Kind, catalog::built_without, resources};
use tidegate_plugin_api::{
    FilterFunction, Instance, Owner, PluginChain, Route, Variable,
    route::{Birth, RouteService, RouteUpstream},
    upstream::Timeouts,
};
use tidegate_routing::{AddressSet, HostPattern, Methods, RouteSpec, expr::Expression};

use crate::{
    Compiler, UNAVAILABLE,
    object::{Key, is_disabled},
    routes::table::Built,
};

impl Compiler {
    pub(crate) fn build_route(&mut self, key: &Key) {
        let Some(object) = self.object(Kind::Route, &key.1).cloned() else {
            self.routes.remove(&key.1);
            return;
        };
        let built = self.compile_route(key, &object);
        self.routes.put(&key.1, built);
    }

    /// A route that cannot be built keeps its place and refuses what it would have answered: without it, its requests would
    /// fall to a broader route that knows nothing of its guards.
    fn compile_route(&mut self, key: &Key, object: &tidegate_model::Object) -> Built {
        let value = object.place();
        let mut faults = Vec::new();
        let mut conf = resources::Route::from_value(&value).unwrap_or_else(|reason| {
            faults.push(reason);
            place::of_route(&value)
        });
        if object.fault.is_some() || !faults.is_empty() {
            place::widen(&mut conf, &value);
        }
        if object.is_lost() {
            // Before any other one that it could have preceded.
            conf.priority = i64::MAX;
        }
        let (service_object, service) = self.service_of(&conf).unzip();
        let filter = self.filter(conf.filter_func.as_deref()).unwrap_or_else(|reason| {
            faults.push(reason);
            None
        });
        let chain = self.chain(key, &conf, service.as_ref()).unwrap_or_else(|reason| {
            faults.push(reason);
            PluginChain::default()
        });
        self.remark_on_unreached(key, &chain);
        let upstream = self.route_upstream(key, &conf, service.as_ref());
        let mut spec = spec(&conf, service.as_ref(), filter.is_some(), &mut faults);
        let is_whole = object.fault.is_none() && faults.is_empty();
        let broken = match self.incomplete.contains(key) {
            false => self.broken_reference(&conf, &upstream),
            true => Some(UNAVAILABLE),
        };
        let has_fault = object.fault.is_some() || broken.is_some();
        self.doubt_hosts(&mut spec, (is_whole, broken.is_some()), (&conf, &value), service_object.as_ref());
        spec.hosts_unknown |= object.is_lost();
        let is_known = self.keep_paths(key, has_fault, &value, &mut spec, &mut faults);
        let is_placeless = !is_known && conf.is_enabled();
        let broken = if faults.is_empty() { broken } else { Some(UNAVAILABLE) };
        if is_placeless {
            self.problem(key, if spec.uris.is_empty() { PLACELESS } else { PARTLY_PLACELESS }.to_owned());
        }
        for fault in faults {
            // The provider's words name the same thing.
            if object.fault.is_none() {
                self.problem(key, fault);
            }
        }
        let owner = Owner { kind: key.0, id: key.1.clone(), version: object.modified };
        let enable_websocket = conf
            .enable_websocket
            .or_else(|| service.as_ref().and_then(|service| service.enable_websocket))
            .unwrap_or(false);
        let on_body = conf.vars.as_ref().is_some_and(mentions_body);
        let route = Route {
            id: key.1.clone(),
            name: conf.name.as_deref().map(Arc::from),
            chain: broken.map_or(chain, |status| PluginChain::refusing(status, owner)),
            upstream,
            broken,
            timeouts: conf.timeout.map(|timeout| Box::new(timeouts(timeout))),
            enable_websocket,
            filter,
            document: object.document.clone(),
            birth: Birth::of(object, self.revisions_last),
            service: self.service_as_named(&conf, service.as_ref(), service_object),
            serial: self.next_serial(),
            version: object.modified,
        };
        Built { route, spec: conf.is_enabled().then_some(spec), on_body, is_placeless }
    }

    fn service_as_named(
        &self,
        conf: &resources::Route,
        service: Option<&resources::Service>,
        object: Option<tidegate_model::Object>,
    ) -> Option<Arc<RouteService>> {
        Some(Arc::new(RouteService {
            id: Arc::from(conf.service_id.as_deref()?),
            name: service.and_then(|service| service.name.as_deref()).map(Arc::from),
            birth: object.as_ref().map(|object| Birth::of(object, self.revisions_last)),
            document: object.map(|object| object.document),
        }))
    }

    fn service_of(&self, conf: &resources::Route) -> Option<(tidegate_model::Object, resources::Service)> {
        let object = self.object(Kind::Service, conf.service_id.as_deref()?)?.clone();
        let value = object.place();
        // Its faults are reported for the service.
        let mut service =
            resources::Service::from_value(&value).unwrap_or_else(|_| place::of_service(&value));
        if object.fault.is_some() {
            place::widen_service(&mut service);
        }
        Some((object, service))
    }

    /// A route that cannot be used and of which not all paths can be read keeps those it had before as well. `false`: which
    /// these are is not known.
    fn keep_paths(
        &mut self,
        key: &Key,
        has_fault: bool,
        value: &Value,
        spec: &mut RouteSpec<Variable>,
        faults: &mut Vec<String>,
    ) -> bool {
        if spec.uris.iter().any(|path| path.is_empty()) && !has_fault {
            faults.push("an empty path matches no request".to_owned());
        }
        if (!has_fault && faults.is_empty()) || place::reads_all_paths(value, self.options.matching()) {
            return true;
        }
        spec.uris.retain(|path| place::may_match(path));
        let before = self.routes.paths(&key.1);
        let is_known = !before.is_empty() && !self.routes.is_placeless(&key.1);
        let added: Vec<_> = before.into_iter().filter(|path| !spec.uris.contains(path)).collect();
        spec.uris.extend(added);
        is_known
    }

    /// Notes what is not known of the hosts of a route, as it is read and as it is written.
    fn doubt_hosts(
        &self,
        spec: &mut RouteSpec<Variable>,
        (is_whole, is_broken): (bool, bool),
        (conf, written): (&resources::Route, &Value),
        service: Option<&tidegate_model::Object>,
    ) {
        let are_read = || place::reads_all_hosts(Kind::Route, written, self.options.matching());
        spec.hosts_unknown = (!is_whole || is_broken) && !are_read()
            || conf.host_names().next().is_none()
                && self.hosts_of_service_are_lost((conf, written), is_broken, service);
        if spec.hosts_unknown {
            spec.hosts.clear();
        }
        spec.first_of_equals = !is_whole || spec.hosts_unknown;
    }

    /// Whether the hosts of a route that has none of its own may be those of a service that cannot be read, or used.
    fn hosts_of_service_are_lost(
        &self,
        (conf, route): (&resources::Route, &Value),
        is_broken: bool,
        service: Option<&tidegate_model::Object>,
    ) -> bool {
        match (service, &conf.service_id) {
            (Some(service), _) => {
                (service.fault.is_some() || is_broken)
                    && !place::reads_all_hosts(Kind::Service, &service.place(), self.options.matching())
            }
            (None, Some(_)) => true,
            (None, None) => route.get("service_id").is_some(),
        }
    }

    /// Whether what is referred to is not there, or cannot be built.
    pub(super) fn is_broken(&self, kind: Kind, id: Option<&str>) -> bool {
        let Some(id) = id else { return false };
        self.object(kind, id).is_none() || self.incomplete.contains(&(kind, Arc::from(id)))
    }

    /// The answer of a route that refers to what is not there, or cannot be built.
    fn broken_reference(&self, conf: &resources::Route, upstream: &RouteUpstream) -> Option<u16> {
        if matches!(upstream, RouteUpstream::Missing) {
            return Some(UNAVAILABLE);
        }
        let lower = [(Kind::Service, &conf.service_id), (Kind::PluginConfig, &conf.plugin_config_id)];
        let mut broken = lower.into_iter().filter(|(kind, id)| self.is_broken(*kind, id.as_deref()));
        broken.next().map(|_| UNAVAILABLE)
    }

    fn filter(&self, source: Option<&str>) -> Result<Option<Arc<dyn FilterFunction>>, String> {
        match (source, &self.lua) {
            (None, _) => Ok(None),
            (Some(source), Some(lua)) => lua.filter(source).map(Some),
            (Some(_), None) => Err(format!("filter_func: {}", built_without("lua"))),
        }
    }

    /// Route over plugin config over service, per plugin name; never merged deeper.
    fn chain(
        &self,
        key: &Key,
        conf: &resources::Route,
        service: Option<&resources::Service>,
    ) -> Result<PluginChain, String> {
        if let Some(script) = &conf.script {
            check_alone(conf, service)?;
            let Some(lua) = &self.lua else {
                return Err(format!("script: {}", built_without("lua")));
            };
            let version = self.object(Kind::Route, &key.1).map_or(0, |object| object.modified);
            let owner = Owner { kind: key.0, id: key.1.clone(), version };
            return Ok(PluginChain::script(lua.script(script)?, owner));
        }
        let mut merged: Vec<Arc<Instance>> = self.instances(Kind::Route, &key.1).to_vec();
        let configured: Vec<&str> = conf.plugins.keys().map(String::as_str).collect();
        let mut names: Vec<&str> = configured;
        let lower = [
            (Kind::PluginConfig, conf.plugin_config_id.as_deref()),
            (Kind::Service, conf.service_id.as_deref()),
        ];
        let values = lower.map(|(kind, id)| id.and_then(|id| Some(self.object(kind, id)?.value())));
        for ((kind, id), value) in lower.into_iter().zip(&values) {
            let Some(id) = id else { continue };
            for instance in self.instances(kind, id) {
                // A plugin that the route names, even disabled, hides the lower one.
                if !names.contains(&instance.def.name) {
                    merged.push(instance.clone());
                }
            }
            if let Some(plugins) = value.as_deref().and_then(|value| value.get("plugins")) {
                names.extend(
                    plugins.as_object().into_iter().flat_map(|plugins| plugins.keys()).map(String::as_str),
                );
            }
        }
        Ok(PluginChain::new(merged))
    }

    fn route_upstream(
        &self,
        key: &Key,
        conf: &resources::Route,
        service: Option<&resources::Service>,
    ) -> RouteUpstream {
        let service = service.zip(conf.service_id.as_deref());
        self.upstream_of(key, (conf.upstream_id.as_deref(), conf.upstream.is_some()), service)
    }

    /// The upstream of a route of either kind: named, or its own, else that of its service.
    pub(crate) fn upstream_of(
        &self,
        key: &Key,
        (named, has_own): (Option<&str>, bool),
        service: Option<(&resources::Service, &str)>,
    ) -> RouteUpstream {
        let by_id = |id: &str| match self.upstreams.get(&(Kind::Upstream, Arc::from(id))) {
            Some(handle) => RouteUpstream::Some(handle.clone()),
            None => RouteUpstream::Missing,
        };
        let inline =
            |key: &Key| self.upstreams.get(key).cloned().map_or(RouteUpstream::None, RouteUpstream::Some);
        if let Some(id) = named {
            return by_id(id);
        }
        if has_own {
            return inline(key);
        }
        let Some((service, service_id)) = service else { return RouteUpstream::None };
        match &service.upstream_id {
            Some(id) => by_id(id),
            None => inline(&(Kind::Service, Arc::from(service_id))),
        }
    }
}

/// A script runs in place of all plugins: one of the route's service, which may guard it, would be switched off.
fn check_alone(conf: &resources::Route, service: Option<&resources::Service>) -> Result<(), String> {
    let runs = |plugins: &resources::Plugins| plugins.values().any(|conf| !is_disabled(conf));
    let beside = if service.is_some_and(|service| runs(&service.plugins)) {
        "the plugins of the service"
    } else if runs(&conf.plugins) || conf.plugin_config_id.is_some() {
        "the plugins of the route"
    } else {
        return Ok(());
    };
    Err(format!(
        "a script would run in place of {beside}: write it as plugin serverless-pre-function, or remove one of them"
    ))
}

/// Said beside what is wrong with the route.
const PLACELESS: &str =
    "none of its paths can be read, and no earlier ones are known: its requests are unknown and NOT refused";

const PARTLY_PLACELESS: &str = "some of its paths cannot be read, and their earlier values are unknown: \
requests for the readable ones are refused, those for the others are NOT refused";

/// Hosts times paths of one route: each pair takes one place in the router.
const MOST_PLACES: usize = 100_000;

/// Which requests the route is for. What of it cannot be read is added to `faults` and asks for nothing, so that the route
/// is for more requests, which it refuses.
fn spec(
    conf: &resources::Route,
    service: Option<&resources::Service>,
    has_filter: bool,
    faults: &mut Vec<String>,
) -> RouteSpec<Variable> {
    let mut spec = RouteSpec::new(0, Arc::default(), conf.paths().map(Box::from).collect());
    let mut hosts: Vec<&str> = conf.host_names().collect();
    if hosts.is_empty() {
        hosts = service.into_iter().flat_map(|service| &service.hosts).map(String::as_str).collect();
    }
    let (hosts_count, paths_count) = (hosts.len(), spec.uris.len());
    if hosts_count.saturating_mul(paths_count) > MOST_PLACES {
        faults.push(format!(
            "{hosts_count} hosts and {paths_count} paths are more than {MOST_PLACES} combinations; split the \
             route"
        ));
        hosts.clear();
    }
    spec.hosts = hosts.into_iter().map(HostPattern::new).collect();
    spec.methods = conf.methods.iter().fold(Methods::EMPTY, |all, name| all.with(Methods::of(name)));
    let addresses: Vec<&str> = conf.client_addresses().collect();
    if !addresses.is_empty() {
        spec.remote_addrs =
            AddressSet::parse(addresses).map_err(|reason| faults.push(reason)).ok().map(Box::new);
    }
    if let Some(vars) = &conf.vars {
        let expression = Expression::compile(vars, &mut |name| Variable::resolve(name)).map_err(|reason| {
            faults.push(format!("failed to validate the 'vars' expression: {reason}"));
        });
        spec.vars = expression.ok().filter(|expression| !expression.is_always_true()).map(Box::new);
    }
    spec.priority = conf.priority;
    spec.has_filter = has_filter;
    spec
}

pub(crate) fn timeouts(timeout: resources::Timeout) -> Timeouts {
    let ms = |seconds: f64| (seconds * 1000.0).ceil() as u64;
    Timeouts { connect_ms: ms(timeout.connect), send_ms: ms(timeout.send), read_ms: ms(timeout.read) }
}

fn mentions_body(vars: &Value) -> bool {
    match vars {
        Value::String(name) => Variable::resolve(name).needs_body(),
        Value::Array(items) => items.iter().any(mentions_body),
        _ => false,
    }
}
