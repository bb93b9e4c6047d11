//! A configuration that has grown change by change is the one that is built from scratch: after each of many random changes
//! to objects, addresses, nodes and secrets both are described, and the descriptions have to be equal.

#![allow(clippy::expect_used)]

#[path = "incremental/describe.rs"]
mod describe;
#[path = "incremental/objects.rs"]
mod objects;
#[path = "incremental/world.rs"]
mod world;

use std::{collections::BTreeMap, sync::Arc};

use tidegate_compiler::{Compiler, Key};
use tidegate_model::Object;

use self::{
    objects::Dice,
    world::{World, compiler},
};

/// Sequences of changes, and changes in each.
const RUNS: u64 = 20;
const CHANGES: usize = 40;

/// What is stored, beside a compiler that has seen every change.
struct Model {
    world: Arc<World>,
    grown: Compiler,
    stored: BTreeMap<Key, Object>,
    revision: u64,
    /// The changes so far, for the message of a failure.
    said: Vec<String>,
}

impl Model {
    fn change(&mut self, dice: &mut Dice) {
        match dice.of(12) {
            0 => {
                let (host, addresses) = dice.address();
                self.said.push(format!("{host} is {addresses:?}"));
                self.world.addresses.lock().insert(host.clone(), addresses);
                self.grown.addresses_changed([host.as_str()].into_iter());
            }
            1 => {
                let (service, nodes) = dice.nodes();
                self.said.push(format!("{} has {} nodes", service.name, nodes.len()));
                self.world.nodes.lock().insert(service.clone(), nodes);
                self.grown.nodes_changed(&[service]);
            }
            2 => {
                let (reference, value) = dice.secret();
                self.said.push(format!("{reference} is {value:?}"));
                self.world.secrets.lock().insert(reference.to_owned(), value);
                self.grown.secrets_changed(&[reference.into()]);
            }
            _ => self.write(dice),
        }
    }

    /// One to three objects in one change, as a batch of a store.
    fn write(&mut self, dice: &mut Dice) {
        let mut changes = Vec::new();
        for _ in 0..=dice.of(3) {
            let (kind, id, value) = dice.object();
            let key: Key = (kind, id.into());
            if dice.of(4) == 0 {
                self.said.push(format!("DELETE {}/{}", kind.directory(), key.1));
                self.stored.remove(&key);
                changes.push((key, None));
                continue;
            }
            self.revision += 1;
            self.said.push(format!("PUT {}/{} {value}", kind.directory(), key.1));
            let created = self.stored.get(&key).map_or(self.revision, |old| old.created);
            let object = objects::object(&key, &value, created, self.revision);
            self.stored.insert(key.clone(), object.clone());
            changes.push((key, Some(object)));
        }
        self.grown.apply(changes);
    }

    fn check(&mut self, seed: u64) {
        let mut fresh = compiler(&self.world);
        fresh.reset(self.stored.values().cloned());
        let (grown, fresh) = (describe::all(&mut self.grown), describe::all(&mut fresh));
        if grown != fresh {
            let differs = |(one, other): &(&String, &String)| one != other;
            let (grown_line, fresh_line) =
                grown.iter().zip(&fresh).find(differs).expect("a line that only one of them has");
            panic!(
                "seed {seed}, after\n{}\ngrown:   {grown_line}\nfresh:   {fresh_line}",
                self.said.join("\n")
            );
        }
    }
}

#[test]
fn grown_configurations_are_those_built_from_scratch() {
    for seed in 0..RUNS {
        let world = Arc::new(World::default());
        let grown = compiler(&world);
        let mut model = Model { world, grown, stored: BTreeMap::new(), revision: 0, said: Vec::new() };
        let mut dice = Dice::new(seed);
        for _ in 0..CHANGES {
            model.change(&mut dice);
            model.check(seed);
        }
    }
}
