//! Whether objects could be used if they were written: they are built the way the compiler builds them, and dropped.
//!
//! With an object that others are built from, those are built too. What was broken before does not refuse a change.

use std::{net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tidegate_model::{
    Kind, Object, Objects, Rejected,
    resources::{DiscoveredService, Node},
};
use tidegate_plugin_api::{Catalog, LuaCompiler, Variable};
use tidegate_routing::RouteSpec;

use crate::{Addresses, Compiler, Options, SecretSource, ServiceNodes, object::Key, references};

/// So many objects are built before others may have their turn.
const AT_ONCE: usize = 500;

/// A compiler of its own, for writes that are not made yet.
pub struct Trial(Mutex<Compiler>);

/// Neither names nor services are looked up for a trial.
struct Nowhere;

impl Addresses for Nowhere {
    fn of(&self, _: &str) -> Option<Vec<IpAddr>> {
        None
    }
}

impl ServiceNodes for Nowhere {
    fn of(&self, _: &DiscoveredService) -> Option<Arc<[Node]>> {
        None
    }
}

impl Trial {
    /// With the same settings as the compiler that serves.
    pub fn new(
        options: Options,
        catalog: Arc<Catalog>,
        secrets: Arc<dyn SecretSource>,
        lua: Option<Arc<dyn LuaCompiler>>,
    ) -> Trial {
        let nowhere = Arc::new(Nowhere);
        let mut compiler = Compiler::new(options, catalog, nowhere.clone(), nowhere, secrets, lua);
        compiler.trial = true;
        Trial(Mutex::new(compiler))
    }

    /// Those of the `changed` objects, and of the objects built from them, that could not be used. `before` and `after` have
    /// all objects, without and with the change.
    pub fn rejected(&self, changed: &[Object], before: &dyn Objects, after: &dyn Objects) -> Vec<Rejected> {
        let mut rejected: Vec<Rejected> =
            changed.chunks(AT_ONCE).flat_map(|part| self.build(part, after)).collect();
        let users = users_of(changed, after);
        for part in users.chunks(AT_ONCE) {
            let broken = self.build(part, after);
            let is_broken =
                |user: &&Object| broken.iter().any(|found| (found.kind, &found.id) == (user.kind, &user.id));
            let again: Vec<Object> =
                part.iter().filter(is_broken).filter_map(|user| before.get(user.kind, &user.id)).collect();
            let already = self.build(&again, before);
            rejected.extend(broken.into_iter().filter(|found| !already.contains(found)));
        }
        rejected
    }

    /// Which requests these routes would be for; nothing of those that are off.
    pub fn specs(&self, changed: &[Object], after: &dyn Objects) -> Vec<Arc<RouteSpec<Variable>>> {
        let routes: Vec<Object> =
            changed.iter().filter(|object| object.kind == Kind::Route).cloned().collect();
        routes
            .chunks(AT_ONCE)
            .flat_map(|part| self.built(part, after, |compiler, _| compiler.routes.specs()))
            .collect()
    }

    fn build(&self, part: &[Object], all: &dyn Objects) -> Vec<Rejected> {
        self.built(part, all, |compiler, keys| {
            let found = compiler.rejected().into_iter();
            found.filter(|found| keys.contains(&(found.kind, found.id.clone()))).collect()
        })
    }

    fn built<T>(
        &self,
        part: &[Object],
        all: &dyn Objects,
        look: impl Fn(&Compiler, &rustc_hash::FxHashSet<Key>) -> T,
    ) -> T {
        let mut compiler = self.0.lock();
        compiler.clear();
        let keys = part.iter().map(|object| (object.kind, object.id.clone()));
        let keys: rustc_hash::FxHashSet<Key> = keys.collect();
        for object in part {
            for (kind, id) in references::of(object) {
                if compiler.object(kind, &id).is_none()
                    && !keys.contains(&(kind, id.clone()))
                    && let Some(target) = all.get(kind, &id)
                {
                    compiler.hold(target);
                }
            }
            compiler.hold(object.clone());
        }
        compiler.rebuild(keys.clone());
        let found = look(&compiler, &keys);
        compiler.clear();
        found
    }
}

/// The objects that are built from a changed one, changed ones aside.
fn users_of(changed: &[Object], after: &dyn Objects) -> Vec<Object> {
    let mut seen: rustc_hash::FxHashSet<Key> =
        changed.iter().map(|object| (object.kind, object.id.clone())).collect();
    let mut users: Vec<Object> = Vec::new();
    // Many services may change at once: routes with scripts are looked for once.
    let mut scripted: Option<Vec<Object>> = None;
    for object in changed {
        let key = (object.kind, object.id.clone());
        let field = match object.kind {
            // A script goes with no plugins.
            Kind::Service => {
                let scripted = scripted.get_or_insert_with(|| after.with_field("script")).iter();
                let own = scripted.filter(|user| references::of(user).contains(&key));
                users.extend(own.filter(|user| seen.insert((user.kind, user.id.clone()))).cloned());
                continue;
            }
            Kind::Proto => "proto_id",
            Kind::Ssl => "client_cert_id",
            Kind::PluginMetadata => &object.id,
            // References to the others are followed by requests, or make no difference to what can be built.
            _ => continue,
        };
        for user in after.with_field(field) {
            if references::of(&user).contains(&key) && seen.insert((user.kind, user.id.clone())) {
                users.push(user);
            }
        }
    }
    users
}

impl Compiler {
    fn hold(&mut self, object: Object) {
        self.objects.entry(object.kind).or_default().insert(object.id.clone(), object);
    }

    /// Forgets every object. What is costly to make, and says nothing about objects, stays.
    fn clear(&mut self) {
        let fresh = Compiler::new(
            self.options.clone(),
            self.catalog.clone(),
            self.addresses.clone(),
            self.nodes.clone(),
            self.secrets.clone(),
            self.lua.clone(),
        );
        let old = std::mem::replace(self, fresh);
        self.tls = old.tls;
        self.servers.keep_sessions(old.servers);
        self.trial = old.trial;
    }
}
