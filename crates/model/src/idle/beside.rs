//! What plugins need beside them: an upstream with a certain scheme, a consumer that an authentication plugin finds.

use std::collections::HashSet;

use serde_json::Value;

use super::together::{is_disabled, plugins, together, upstream_of};
use crate::{Kind, Object, Objects, PluginCatalog};

pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog, all: &dyn Objects) -> Vec<String> {
    let mut found = Vec::new();
    if !matches!(object.kind, Kind::Route | Kind::Service | Kind::GlobalRule) {
        return found;
    }
    let parts = together(object, all);
    let mut names = HashSet::new();
    let confs = parts.iter().filter_map(|value| plugins(value)).flatten();
    let in_effect: Vec<(&str, &Value)> = confs
        .filter(|(name, conf)| names.insert(name.as_str()) && !is_disabled(conf))
        .map(|(name, conf)| (name.as_str(), conf))
        .collect();
    found.extend(schemes(object, &in_effect, catalog, all));
    found.extend(consumers(object, &in_effect, catalog, all));
    found
}

/// Where requests go to other upstreams as well, none is known to be wrong.
fn schemes(
    object: &Object,
    in_effect: &[(&str, &Value)],
    catalog: &dyn PluginCatalog,
    all: &dyn Objects,
) -> Vec<String> {
    let needs = in_effect.iter().filter_map(|(name, _)| catalog.facts(name));
    let needs: Vec<_> = needs.filter(|facts| !facts.schemes.is_empty()).collect();
    if needs.is_empty() || in_effect.iter().any(|(name, _)| *name == "traffic-split") {
        return Vec::new();
    }
    let value = object.value();
    let Some(upstream) = upstream_of(&value, all) else { return Vec::new() };
    let scheme = upstream.get("scheme").map_or(Some("http"), Value::as_str).unwrap_or_default();
    let vain = needs.iter().filter(|facts| !scheme.is_empty() && !facts.schemes.contains(&scheme));
    vain.map(|facts| {
        let wanted = facts.schemes.join(" or ");
        format!("plugin {} needs an upstream with scheme {wanted}, and this one has {scheme}", facts.name)
    })
    .collect()
}

/// What counts by a consumer that no plugin finds. Routes of a service may have what the service lacks.
fn consumers(
    object: &Object,
    in_effect: &[(&str, &Value)],
    catalog: &dyn PluginCatalog,
    all: &dyn Objects,
) -> Vec<String> {
    if object.kind == Kind::Service {
        return Vec::new();
    }
    let mut vain = Vec::new();
    for (name, conf) in in_effect {
        let Some(facts) = catalog.facts(name) else { continue };
        vain.extend((facts.of_consumer)(conf).map(|said| format!("plugin {name}: {said}")));
        for nested in (facts.nested)(conf) {
            let said = catalog.facts(nested.name).and_then(|facts| (facts.of_consumer)(nested.conf));
            vain.extend(said.map(|said| format!("plugin {name}: {}: {said}", nested.path)));
        }
    }
    let identifies = |name: &str| catalog.facts(name).is_some_and(|facts| facts.may_identify);
    let has_one = |value: &Value| {
        plugins(value).into_iter().flatten().any(|(name, conf)| identifies(name) && !is_disabled(conf))
    };
    if vain.is_empty()
        || in_effect.iter().any(|(name, _)| identifies(name))
        || all.of_kind(Kind::GlobalRule).iter().any(|rule| has_one(&rule.value()))
    {
        return Vec::new();
    }
    let why = match object.kind {
        Kind::GlobalRule => {
            "global rules run before the plugins of routes, and none of them says which consumer a request is of"
        }
        _ => "no plugin here says which consumer a request is of; add one that does, such as key-auth",
    };
    vain.into_iter().map(|said| format!("{said}: {why}")).collect()
}
