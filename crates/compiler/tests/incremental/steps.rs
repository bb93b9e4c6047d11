//! Random changes to a configuration and to what is around it.

use std::{fmt, net::IpAddr, sync::Arc};

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tidegate_compiler::Key;
use tidegate_model::{
    Kind,
    resources::{DiscoveredService, Node},
};

use crate::{
    damage::Damage,
    dice::Dice,
    keys,
    objects::{HOSTS, KEYS, SECRET, SERVICES},
};

/// A change, and whether a snapshot is made after it and compared.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub change: Change,
    pub is_looked_at: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Objects that the store gives at once.
    Write(Vec<Write>),
    /// The store cannot say what has changed: it gives all of its objects.
    Reset,
    /// Only these plugins are enabled; `None`: all that are on by default.
    Plugins(Option<Vec<String>>),
    Addresses(String, Vec<IpAddr>),
    Nodes(DiscoveredService, Arc<[Node]>),
    Secret(Option<String>),
}

/// What becomes of one object. Of an object that is not there, nothing.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Put(Key, Value),
    /// Sets a field to that of another object of the kind, or removes it.
    Patch(Key, String, Option<Value>),
    Damage(Key, Damage),
    Delete(Key),
}

pub(crate) fn step(is_wild: bool) -> impl Strategy<Value = Step> {
    let write = any::<u64>().no_shrink().prop_map(move |seed| Write::random(&mut Dice::new(seed), is_wild));
    let around = any::<u64>().no_shrink().prop_map(|seed| Change::around(&mut Dice::new(seed)));
    let change = prop_oneof![5 => vec(write, 1..4).prop_map(Change::Write), 2 => around];
    (change, any::<bool>().no_shrink()).prop_map(|(change, is_looked_at)| Step { change, is_looked_at })
}

impl Write {
    fn random(dice: &mut Dice, is_wild: bool) -> Write {
        let (kind, id, value) = dice.object();
        let key: Key = (kind, id.into());
        match dice.of(8) {
            0 | 1 => Write::Delete(key),
            2 => {
                let fields = value.as_object().into_iter().flatten();
                let fields: Vec<(String, Value)> =
                    fields.map(|(name, value)| (name.clone(), value.clone())).collect();
                let (name, value) = dice.pick(&fields);
                let is_set = dice.of(3) > 0;
                Write::Patch(key, name, is_set.then_some(value))
            }
            3 if is_wild => {
                let key = (Kind::Route, dice.id("r", 6).into());
                Write::Damage(key, Damage::of(dice, Kind::Route))
            }
            4 if is_wild => Write::Damage(key, Damage::of(dice, kind)),
            _ => Write::Put(key, value),
        }
    }
}

impl Change {
    fn around(dice: &mut Dice) -> Change {
        match dice.of(8) {
            0 | 1 => {
                let host = dice.pick(&HOSTS).to_owned();
                let count = dice.of(3);
                let address = |_| IpAddr::from([127, 0, 0, 2 + dice.of(4) as u8]);
                Change::Addresses(host, (0..count).map(address).collect())
            }
            2 | 3 => Change::nodes(dice),
            4 | 5 => {
                let value = dice.pick(&[None, Some(KEYS[2].to_owned()), Some(KEYS[0].to_owned())]);
                Change::Secret(value)
            }
            6 => {
                let few = ["probe", "key-auth", "traffic-split", "limit-count"].map(str::to_owned).to_vec();
                Change::Plugins(dice.once_in(2).then_some(few))
            }
            _ => Change::Reset,
        }
    }

    fn nodes(dice: &mut Dice) -> Change {
        let service = DiscoveredService {
            registry: "consul".into(),
            name: dice.pick(&SERVICES).into(),
            namespace: None,
            group: None,
            grpc: false,
        };
        let count = dice.of(3);
        let mut node = || Node {
            // Registries may name hosts.
            host: dice.pick(&["127.0.1.1", "127.0.1.2", HOSTS[0], "fd00::1"]).to_owned(),
            port: Some(80),
            weight: 1 + dice.of(2) as u32,
            max_conn: None,
            priority: 0,
            metadata: dice.once_in(3).then(|| serde_json::from_value(json!({"zone": "b"})).ok()).flatten(),
        };
        Change::Nodes(service, (0..count).map(|_| node()).collect())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_looked_at { " (compared)" } else { "" };
        write!(f, "{}{mark}", self.change)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Write(writes) => {
                let writes: Vec<String> = writes.iter().map(Write::to_string).collect();
                f.write_str(&writes.join("\n  and "))
            }
            Change::Reset => f.write_str("all objects again"),
            Change::Plugins(names) => write!(f, "plugins {names:?}"),
            Change::Addresses(host, addresses) => write!(f, "{host} is {addresses:?}"),
            Change::Nodes(service, nodes) => {
                let nodes: Vec<&str> = nodes.iter().map(|node| node.host.as_str()).collect();
                write!(f, "service {} has {nodes:?}", service.name)
            }
            Change::Secret(value) => write!(f, "{SECRET} is {value:?}"),
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |(kind, id): &Key| format!("{}/{id}", kind.directory());
        match self {
            Write::Put(key, value) => write!(f, "PUT {} {}", name(key), keys::shown(value)),
            Write::Patch(key, field, value) => {
                let value = value.as_ref().unwrap_or(&Value::Null);
                write!(f, "PATCH {} {field} {}", name(key), keys::shown(value))
            }
            Write::Damage(key, damage) => write!(f, "DAMAGE {} {damage:?}", name(key)),
            Write::Delete(key) => write!(f, "DELETE {}", name(key)),
        }
    }
}
