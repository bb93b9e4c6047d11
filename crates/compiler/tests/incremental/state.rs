//! What is stored, beside a compiler that has seen every change of it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::json;
use tidegate_compiler::{Compiler, Key};
use tidegate_model::{Document, Kind, Object};
use tidegate_routing::router::Mode as Router;

use crate::{
    describe::Description,
    dice::Dice,
    found::{Found, found},
    objects::SECRET,
    steps::{Change, Step, Write},
    world::{World, compiler},
};

/// What distinguishes the runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    router: Router,
    /// Among the objects are some that cannot be read.
    pub is_wild: bool,
    /// There are so many routes that changes are laid over those before.
    is_crowded: bool,
    /// The store gives each revision once.
    revisions_last: bool,
}

impl Mode {
    pub(crate) fn of(seed: u64) -> Mode {
        let routers = [Router::HostUri, Router::Uri, Router::UriWithParameter];
        Mode {
            router: routers[(seed % 3) as usize],
            is_wild: seed % 2 == 1,
            is_crowded: seed % 7 == 3,
            revisions_last: seed % 5 > 1,
        }
    }
}

pub(crate) struct State {
    mode: Mode,
    world: Arc<World>,
    grown: Compiler,
    stored: BTreeMap<Key, Object>,
    revision: u64,
}

/// Enough for the router to lay changes over a base (`MIN_CHANGES` in `routes/table.rs`).
const CROWD: u64 = 80;

impl State {
    pub(crate) fn new(mode: Mode) -> State {
        let world = World::new(mode.router);
        let grown = State::compiler(&world, mode);
        let mut state = State { mode, world, grown, stored: BTreeMap::new(), revision: 0 };
        if mode.is_crowded {
            let mut dice = Dice::new(7);
            let crowd = (0..CROWD).map(|number| {
                let uri = dice.pick(&["/a", "/a/*", "/b", "/c/*"]);
                let value = json!({"uri": uri, "host": dice.pick(&["a.test", "*.test", "other.test"])});
                Write::Put((Kind::Route, format!("crowd{number}").into()), value)
            });
            state.write(&crowd.collect::<Vec<_>>());
        }
        state
    }

    fn compiler(world: &Arc<World>, mode: Mode) -> Compiler {
        let mut compiler = compiler(world);
        if mode.revisions_last {
            compiler.rely_on_revisions();
        }
        compiler
    }

    pub(crate) fn follow(&mut self, steps: &[Step]) -> Result<(), String> {
        for (number, step) in steps.iter().enumerate() {
            self.take(&step.change)?;
            if step.is_looked_at || number + 1 == steps.len() {
                self.compare()
                    .map_err(|difference| format!("(after {} changes)\n{difference}", number + 1))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Write(writes) => match writes.as_slice() {
                [Write::Damage(key, damage)] if key.0 == Kind::Route && damage.shuts() => {
                    return self.damage_route(writes, &key.1);
                }
                writes => self.write(writes),
            },
            Change::Reset => self.grown.reset(self.stored.values().cloned()),
            Change::Plugins(names) => {
                self.world.catalog.enable(names.as_deref());
                self.grown.forget_plugins();
                self.grown.reset(self.stored.values().cloned());
            }
            Change::Addresses(host, addresses) => {
                self.world.addresses.lock().insert(host.clone(), addresses.clone());
                self.grown.addresses_changed([host.as_str()].into_iter());
            }
            Change::Nodes(service, nodes) => {
                self.world.nodes.lock().insert(service.clone(), nodes.clone());
                self.grown.nodes_changed(std::slice::from_ref(service));
            }
            Change::Secret(value) => {
                self.world.secrets.lock().insert(SECRET.to_owned(), value.clone());
                self.grown.secrets_changed(&[SECRET.into()]);
            }
        }
        Ok(())
    }

    fn write(&mut self, writes: &[Write]) {
        let mut changes = Vec::new();
        for write in writes {
            let (Write::Put(key, _) | Write::Patch(key, ..) | Write::Damage(key, _) | Write::Delete(key)) =
                write;
            let before = self.stored.get(key);
            let after = match write {
                Write::Put(_, value) => {
                    let created = before.map_or(self.revision + 1, |old| old.created);
                    Some(object(key, Document::new(value), created))
                }
                Write::Delete(_) => None,
                Write::Patch(_, field, value) => before.map(|old| {
                    let mut document = (*old.value()).clone();
                    if let Some(fields) = document.as_object_mut() {
                        match value {
                            Some(value) => drop(fields.insert(field.clone(), value.clone())),
                            None => drop(fields.remove(field)),
                        }
                    }
                    object(key, Document::new(&document), old.created)
                }),
                Write::Damage(_, damage) => before.map(|old| damage.applied_to(old)),
            };
            self.revision += 1;
            let after = after.map(|object| Object { modified: self.revision, ..object });
            match &after {
                Some(object) => drop(self.stored.insert(key.clone(), object.clone())),
                None => drop(self.stored.remove(key)),
            }
            changes.push((key.clone(), after));
        }
        self.grown.apply(changes);
    }

    /// What the route was for, it refuses from now on: no other route gets a request of it.
    fn damage_route(&mut self, writes: &[Write], id: &str) -> Result<(), String> {
        let before = found(&self.grown.snapshot(self.revision));
        self.write(writes);
        let after = found(&self.grown.snapshot(self.revision));
        let is_of_it = |found: &Option<Found>| found.as_ref().is_some_and(|found| &*found.route == id);
        for ((request, before), (_, after)) in before.iter().zip(&after) {
            let is_shut = after.as_ref().is_some_and(|found| found.is_broken);
            if is_of_it(before) && !(is_of_it(after) && is_shut) {
                return Err(format!(
                    "{request} was for routes/{id}, which cannot be used now, and gets {after:?}"
                ));
            }
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), String> {
        let mut fresh = State::compiler(&self.world, self.mode);
        fresh.reset(self.stored.values().cloned());
        let fresh = Description::of(&mut fresh, self.revision);
        Description::of(&mut self.grown, self.revision).compare(&fresh)
    }
}

fn object((kind, id): &Key, document: Document, created: u64) -> Object {
    Object { kind: *kind, id: id.clone(), document, created, modified: 0, fault: None, unread: None }
}
