//! Guards behind a plugin that answers every request: they are accepted, and never run. What a request would meet is decided as
//! `tidegate explain` decides it, by [`tidegate_plugin_api::Plugin::answers_all_in`].

use std::sync::Arc;

use tidegate_plugin_api::{Instance, Phases, PluginChain};
use tidegate_telemetry::error_log::Level;

use crate::{Compiler, object::Key};

/// In the order of a request. Where the order of the third and the fourth is the other way round, a guard is not named.
const BEFORE_UPSTREAM: [Phases; 5] =
    [Phases::REWRITE, Phases::ACCESS, Phases::BEFORE_PROXY, Phases::STORED, Phases::DEPARTING];

/// So many guards of a chain are named.
const MOST_NAMED: usize = 5;

/// Whether a chain of these may have guards that never run.
pub(crate) fn any_answers(instances: &[Arc<Instance>]) -> bool {
    instances.iter().any(|instance| instance.plugin.answers_all_in().is_some())
}

impl Compiler {
    /// Of the chain of a route, or of the plugins of another object. Of two plugins that another object has, that one is reported.
    pub(crate) fn remark_on_unreached(&mut self, key: &Key, chain: &PluginChain) {
        if !any_answers(chain.instances()) {
            return;
        }
        let Some((answers, guards)) = unreached(chain) else { return };
        let is_told = |guard: &&Arc<Instance>| is_of(guard, key) || !same_owner(guard, answers);
        let names: Vec<String> =
            guards.into_iter().filter(is_told).take(MOST_NAMED).map(|guard| named(guard, key)).collect();
        let verb = match names.as_slice() {
            [] => return,
            [_] => "never runs",
            _ => "never run",
        };
        let text = format!(
            "{} {verb}: {} answers every request before; remove it, or give it a condition (_meta.filter)",
            names.join(", "),
            named(answers, key)
        );
        self.remark(key, Level::Warn, text);
    }
}

fn is_of(instance: &Instance, key: &Key) -> bool {
    (instance.owner.kind, &instance.owner.id) == (key.0, &key.1)
}

fn same_owner(one: &Instance, other: &Instance) -> bool {
    (one.owner.kind, &one.owner.id) == (other.owner.kind, &other.owner.id)
}

/// With its object, where that is not the one that is reported.
fn named(instance: &Instance, told: &Key) -> String {
    let (name, owner) = (instance.def.name, &instance.owner);
    if is_of(instance, told) {
        return name.to_owned();
    }
    format!("{name} of {}/{}", owner.kind.directory(), owner.id)
}

/// The plugin that answers all requests, and the guards that have their first turn behind it.
fn unreached(chain: &PluginChain) -> Option<(&Arc<Instance>, Vec<&Arc<Instance>>)> {
    let (mut answers, mut before, mut behind) = (None, Vec::new(), Vec::new());
    for phase in BEFORE_UPSTREAM {
        for instance in chain.of_phase(phase) {
            let is = |other: &&Arc<Instance>| Arc::ptr_eq(other, instance);
            if answers.is_none() {
                before.push(instance);
                answers = Some(instance).filter(|_| answers_all(instance, phase));
            } else if instance.def.guards
                && instance.plugin.answers_all_in().is_none()
                && !before.iter().any(is)
                && !behind.iter().any(is)
            {
                behind.push(instance);
            }
        }
    }
    answers.zip(Some(behind))
}

fn answers_all(instance: &Instance, phase: Phases) -> bool {
    let is_conditional = instance.filter.is_some() || instance.pre_function.is_some();
    !is_conditional && instance.plugin.answers_all_in() == Some(phase)
}
