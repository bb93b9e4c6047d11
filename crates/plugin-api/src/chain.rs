//! The plugins of a route in the order they run, one list per phase.

use std::{slice, sync::Arc};

use crate::{
    Foresight, Instance, Owner, Phases, Plugin, PluginChain, PluginDef, Reply, Request, Step, types::Links,
};

/// The name of the plugin that [`PluginChain::refusing`] runs, in explanations and traces.
pub const REFUSAL: &str = "unavailable";

/// Replaces a guard that cannot be built.
struct Refusal(u16);

impl Plugin for Refusal {
    fn rewrite<'a>(&'a self, _: &'a mut Request) -> Step<'a> {
        Step::reply(Reply::page(self.0))
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl Foresight {
    /// Runs the phase itself: for plugins whose phase has no effect but on the request, and that wait for nothing but its
    /// body.
    pub fn by_running(plugin: &dyn Plugin, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::of_step(step(plugin, phase, request))
    }
}

/// A phase in which a plugin may answer.
#[inline]
pub fn step<'a>(plugin: &'a dyn Plugin, phase: Phases, request: &'a mut Request) -> Step<'a> {
    match phase {
        Phases::REWRITE => plugin.rewrite(request),
        Phases::ACCESS => plugin.access(request),
        Phases::STORED => plugin.stored(request),
        Phases::DEPARTING => plugin.departing(request),
        _ => plugin.before_proxy(request),
    }
}

/// Iterator of [`PluginChain::of_phase`]; the default is empty.
#[derive(Default)]
pub struct InPhase<'a> {
    instances: &'a [Arc<Instance>],
    positions: slice::Iter<'a, u32>,
}

impl<'a> Iterator for InPhase<'a> {
    type Item = &'a Arc<Instance>;

    #[inline]
    fn next(&mut self) -> Option<&'a Arc<Instance>> {
        self.instances.get(*self.positions.next()? as usize)
    }
}

impl PluginChain {
    /// Sorts by falling priority; equal priorities by name, so that the order does not depend on JSON's.
    pub fn new(mut instances: Vec<Arc<Instance>>) -> PluginChain {
        instances.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.def.name.cmp(b.def.name)));
        PluginChain::in_order(instances)
    }

    /// The chain of a route that has a `script` instead of plugins.
    pub fn script(plugin: Arc<dyn Plugin>, owner: Owner) -> PluginChain {
        static SCRIPT: PluginDef = PluginDef {
            name: "script",
            phases: Phases::REWRITE
                .and(Phases::ACCESS)
                .and(Phases::HEADER_FILTER)
                .and(Phases::BODY_FILTER)
                .and(Phases::LOG),
            ..PluginDef::DEFAULT
        };
        let instance = Instance {
            def: &SCRIPT,
            plugin,
            owner,
            priority: 0,
            filter: None,
            error_response: None,
            pre_function: None,
        };
        PluginChain::in_order(vec![Arc::new(instance)])
    }

    /// Refuses every request with this status, before any other plugin of its place could answer.
    pub fn refusing(status: u16, owner: Owner) -> PluginChain {
        static DEF: PluginDef = PluginDef { name: REFUSAL, phases: Phases::REWRITE, ..PluginDef::DEFAULT };
        let instance = Instance {
            def: &DEF,
            plugin: Arc::new(Refusal(status)),
            owner,
            priority: i64::MAX,
            filter: None,
            error_response: None,
            pre_function: None,
        };
        PluginChain::in_order(vec![Arc::new(instance)])
    }

    /// Several chains one after the other (global rules).
    pub fn concatenate<'a>(chains: impl IntoIterator<Item = &'a PluginChain>) -> PluginChain {
        PluginChain::in_order(
            chains.into_iter().flat_map(|chain| chain.instances().iter().cloned()).collect(),
        )
    }

    fn in_order(instances: Vec<Arc<Instance>>) -> PluginChain {
        if instances.is_empty() {
            return PluginChain(None);
        }
        let (mut positions, mut ends) = (Vec::new(), [0; Phases::COUNT]);
        for (end, phase) in ends.iter_mut().zip(Phases::each()) {
            let runs = |instance: &Arc<Instance>| {
                instance.def.phases.contains(phase) && instance.plugin.phases().contains(phase)
            };
            positions.extend((0u32..).zip(&instances).filter(|(_, one)| runs(one)).map(|(at, _)| at));
            *end = positions.len() as u32;
        }
        PluginChain(Some(Arc::new(Links { instances: instances.into(), positions: positions.into(), ends })))
    }

    /// All plugins, by falling priority.
    pub fn instances(&self) -> &[Arc<Instance>] {
        self.0.as_ref().map_or(&[], |links| &links.instances)
    }

    /// The first instance of the plugin of that name.
    pub fn find(&self, name: &str) -> Option<&Arc<Instance>> {
        self.instances().iter().find(|instance| instance.def.name == name)
    }

    fn indices(&self, phase: Phases) -> &[u32] {
        let (Some(links), Some(number)) = (&self.0, phase.number()) else { return &[] };
        let end = |number: usize| links.ends.get(number).copied().unwrap_or_default();
        let begin = number.checked_sub(1).map_or(0, end);
        links.positions.get(begin as usize..end(number) as usize).unwrap_or_default()
    }

    /// Whether any plugin takes part in the phase. Costs no search.
    pub fn runs_in(&self, phase: Phases) -> bool {
        !self.indices(phase).is_empty()
    }

    /// The plugins that take part in one phase, in order. Other sets of phases yield nothing.
    pub fn of_phase(&self, phase: Phases) -> InPhase<'_> {
        InPhase { instances: self.instances(), positions: self.indices(phase).iter() }
    }
}
