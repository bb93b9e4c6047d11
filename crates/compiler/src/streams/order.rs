//! Stream routes that take no session, because another one takes them first: a guard of such a route never runs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tidegate_plugin_api::stream_route::{StreamConditions, StreamRoute};

/// Who takes all sessions of a name (empty: those without) at a port (`None`: at any).
type Takers<'a> = HashMap<(&'a str, Option<u16>), &'a Arc<str>>;

/// By id, which route or routes are in the way. `routes` are in the order in which they are tried.
pub(super) fn behind<'a>(routes: impl Iterator<Item = &'a Arc<StreamRoute>>) -> BTreeMap<Arc<str>, String> {
    let mut takers = Takers::default();
    let mut found = BTreeMap::new();
    for route in routes.filter(|route| is_certain(&route.conditions)) {
        let (id, conditions) = (&route.owner.id, &route.conditions);
        if let Some(others) = takers_of(conditions, &takers) {
            let text = format!(
                "no session reaches this stream route: {others} before it by id; narrow {} by remote_addr, server_port or \
                 sni, or give this one a smaller id",
                if others.contains(',') { "them" } else { "it" }
            );
            found.insert(id.clone(), text);
        }
        if conditions.remote.is_none() && conditions.local.is_none() {
            for place in places(conditions) {
                takers.entry(place).or_insert(id);
            }
        }
    }
    found
}

/// One that may be meant for other sessions than it says comes first, and is rejected.
fn is_certain(conditions: &StreamConditions) -> bool {
    !(conditions.any_session || conditions.any_name || conditions.any_port)
}

fn places(conditions: &StreamConditions) -> Vec<(&str, Option<u16>)> {
    let names: Vec<&str> = match conditions.names.as_slice() {
        [] => vec![""],
        names => names.iter().map(|name| &**name).collect(),
    };
    let ports: Vec<Option<u16>> = match conditions.ports.as_slice() {
        [] => vec![None],
        ports => ports.iter().copied().map(Some).collect(),
    };
    names.iter().flat_map(|name| ports.iter().map(|port| (*name, *port))).collect()
}

/// `stream route 1 takes its sessions`; `None`: it has sessions of its own.
fn takers_of(conditions: &StreamConditions, takers: &Takers<'_>) -> Option<String> {
    let mut ids: Vec<&str> = Vec::new();
    for (name, port) in places(conditions) {
        // A name at any port is looked for only where TLS ends here.
        let anywhere = takers.get(&(name, None)).filter(|_| port.is_none() || name.is_empty());
        let taker = takers.get(&(name, port)).or(anywhere)?;
        if !ids.contains(&&***taker) {
            ids.push(taker);
        }
    }
    Some(match ids.as_slice() {
        [one] => format!("stream route {one} takes its sessions"),
        all => format!("stream routes {} take its sessions", all.join(", ")),
    })
}
