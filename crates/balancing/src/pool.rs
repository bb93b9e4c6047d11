//! One upstream as the workers share it: its nodes, their statistics and health, and the pick.

use std::{
    cell::RefCell,
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use smallvec::SmallVec;

use crate::{
    balancer::{Candidates, Group, Lane, groups},
    health::{Health, HealthSignal, Source, Target, Transition},
    node::{Node, Statistics},
    spec::{Algorithm, NodeSpec, UpstreamSpec},
};

/// Workers share it; every method takes `&self` and none blocks or, but for a change of health, allocates.
///
/// There may be 50,000, most of them with one node: what only a choice needs is apart.
#[derive(Debug)]
pub struct Upstream {
    /// In the order of the specification.
    pub nodes: SmallVec<[Node; 1]>,
    /// `None`: the object has no `checks`, and all nodes are usable.
    pub health: Option<Box<Health>>,
    /// `None`: there are not several nodes.
    choice: Option<Box<Choice>>,
    /// What it was built from, but for the nodes.
    pub spec: Arc<UpstreamSpec>,
    algorithm: Algorithm,
    /// Some node has a `max_conn`.
    limited: bool,
}

/// What a choice among several nodes needs.
#[derive(Debug)]
struct Choice {
    lanes: Vec<Lane>,
    all: Vec<Group>,
    /// Some nodes, but not all, are unhealthy.
    narrowed: AtomicBool,
    /// Groups of the healthy nodes, for the balancer whose proportions depend on who takes part.
    healthy: ArcSwapOption<Vec<Group>>,
    change: Mutex<()>,
}

impl Upstream {
    /// `lanes`: how many workers pick. `previous`: the same upstream before a change; nodes that stay keep their
    /// statistics, and their health if the checks stay. Nodes beyond 65,535 are left out.
    pub fn new(mut spec: UpstreamSpec, lanes: usize, previous: Option<&Upstream>) -> Self {
        spec.nodes.truncate(usize::from(u16::MAX));
        let known = Known::of(previous);
        // Kept once, by the nodes: there may be 50,000 upstreams.
        let specs = std::mem::take(&mut spec.nodes);
        let limited = specs.iter().any(|node| node.max_conn.is_some());
        let asks = limited || matches!(spec.algorithm, Algorithm::LeastConnections | Algorithm::Ewma);
        let nodes: SmallVec<[Node; 1]> =
            specs.into_iter().map(|spec| Node { statistics: known.statistics(&spec, asks), spec }).collect();
        let health = spec.checks.clone().map(|checks| {
            let kept = previous.and_then(|previous| previous.health.as_deref());
            let kept = kept.filter(|health| health.checks == *checks);
            let targets = nodes.iter().map(|node| known.target(&node.spec, kept.is_some())).collect();
            let health = Box::new(Health::new(*checks, targets));
            if kept.is_some_and(Health::is_used) {
                health.mark_used();
            }
            health
        });
        let choice = (nodes.len() > 1).then(|| {
            let seed = RandomState::new();
            Box::new(Choice {
                lanes: (0..lanes.max(1)).map(|lane| Lane::new(seed.hash_one(lane))).collect(),
                all: groups(spec.algorithm, &nodes, &|_| true),
                narrowed: AtomicBool::new(false),
                healthy: ArcSwapOption::empty(),
                change: Mutex::new(()),
            })
        });
        let algorithm = spec.algorithm;
        let upstream = Self { nodes, health, choice, spec: shared(spec), algorithm, limited };
        upstream.refresh_health();
        upstream
    }

    /// The node for the next attempt, or `None` when every node was tried. `lane` is the worker's number,
    /// `hash_key` what consistent hashing hashes. A lone node is returned even if it was tried.
    /// Where a node has a `max_conn`, a place there is taken with the pick; `None` as well when all places are.
    /// Each pick is followed by [`started`](Self::started).
    pub fn pick(&self, lane: usize, hash_key: Option<&[u8]>, tried: &[u16], now_ms: u64) -> Option<u16> {
        if !self.limited {
            return self.choose(lane, hash_key, tried, now_ms);
        }
        let mut tried: SmallVec<[u16; 8]> = tried.into();
        for _ in 0..self.nodes.len() {
            let node = self.choose(lane, hash_key, &tried, now_ms)?;
            if self.nodes.get(usize::from(node)).is_some_and(Node::take_place) {
                return Some(node);
            }
            tried.push(node);
        }
        None
    }

    fn choose(&self, lane: usize, hash_key: Option<&[u8]>, tried: &[u16], now_ms: u64) -> Option<u16> {
        if let Some(health) = &self.health {
            health.mark_used();
        }
        self.choose_in_lane(lane, hash_key, tried, now_ms)
    }

    /// The node that hashing gives a key now, its `max_conn` aside. Nothing is counted.
    pub fn preview(&self, hash_key: &[u8], now_ms: u64) -> Option<u16> {
        self.choose_in_lane(0, Some(hash_key), &[], now_ms)
    }

    fn choose_in_lane(
        &self,
        lane: usize,
        hash_key: Option<&[u8]>,
        tried: &[u16],
        now_ms: u64,
    ) -> Option<u16> {
        let Some(choice) = &self.choice else { return (!self.nodes.is_empty()).then_some(0) };
        let lane = choice.lanes.get(lane.checked_rem(choice.lanes.len())?)?;
        let narrowed = choice.narrowed.load(Ordering::Relaxed);
        let health = if narrowed { self.health.as_deref() } else { None };
        let candidates = Candidates { nodes: &self.nodes, tried, health, hash_key, now_ms };
        if narrowed && let Some(healthy) = &*choice.healthy.load() {
            return healthy.iter().find_map(|group| group.pick(lane, &candidates));
        }
        choice.all.iter().find_map(|group| group.pick(lane, &candidates))
    }

    /// Whether nodes have a `max_conn`.
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// A request was sent to the node. Each call needs a [`finished`](Self::finished).
    pub fn started(&self, node: u16) {
        // With limits the pick has counted it.
        if self.algorithm == Algorithm::LeastConnections
            && !self.limited
            && let Some(statistics) = self.statistics(node)
        {
            statistics.active.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The request ended; `latency_ms` is the time to connect and to answer, `None` if there was no answer.
    pub fn finished(&self, node: u16, latency_ms: Option<f64>, now_ms: u64) {
        let Some(statistics) = self.statistics(node) else { return };
        if self.limited || self.algorithm == Algorithm::LeastConnections {
            let less = |active: u32| Some(active.saturating_sub(1));
            // The closure never refuses, so there is no error to look at.
            let _ = statistics.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        if let (Algorithm::Ewma, Some(latency_ms)) = (self.algorithm, latency_ms) {
            statistics.add_latency(latency_ms, now_ms);
        }
    }

    fn statistics(&self, node: u16) -> Option<&Statistics> {
        self.nodes.get(usize::from(node))?.statistics.as_deref()
    }

    /// Counts the outcome of a probe or a request; the transition, if there was one, is for the log.
    pub fn report(&self, node: u16, source: Source, outcome: HealthSignal) -> Option<Transition> {
        let transition = self.health.as_ref()?.report(node, source, outcome)?;
        if transition.changes_use() {
            self.refresh_health();
        }
        Some(transition)
    }

    /// Whether requests report to health at all.
    pub fn has_passive_checks(&self) -> bool {
        self.health.as_ref().is_some_and(|health| health.checks.passive.is_some())
    }

    fn refresh_health(&self) {
        let (Some(health), Some(choice)) = (&self.health, &self.choice) else { return };
        // Two changes at once must not publish the older view last.
        let _change = choice.change.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = health.targets.iter().filter(|target| target.state().is_usable()).count();
        let narrowed = usable > 0 && usable < health.targets.len();
        if narrowed && self.algorithm == Algorithm::RoundRobin {
            let healthy = groups(self.algorithm, &self.nodes, &|node| health.is_usable(node));
            choice.healthy.store(Some(Arc::new(healthy)));
        } else {
            choice.healthy.store(None);
        }
        choice.narrowed.store(narrowed, Ordering::Release);
    }
}

impl AsRef<Upstream> for Upstream {
    fn as_ref(&self) -> &Upstream {
        self
    }
}

thread_local! {
    static LAST: RefCell<Arc<UpstreamSpec>> = RefCell::default();
}

/// Most upstreams are specified alike, but for their nodes: one that is equal to the last one is the same.
fn shared(spec: UpstreamSpec) -> Arc<UpstreamSpec> {
    LAST.with_borrow_mut(|last| {
        if **last != spec {
            *last = Arc::new(spec);
        }
        last.clone()
    })
}

/// State that is kept of the nodes of the upstream before a change.
#[derive(Default)]
struct Known<'a>(HashMap<Identity<'a>, Kept<'a>>);

/// Host, port and address.
type Identity<'a> = (&'a str, u16, Option<IpAddr>);

type Kept<'a> = (Option<&'a Arc<Statistics>>, Option<&'a Arc<Target>>);

impl<'a> Known<'a> {
    fn of(previous: Option<&'a Upstream>) -> Self {
        let Some(previous) = previous else { return Self::default() };
        let target =
            |position: usize| previous.health.as_ref().and_then(|health| health.targets.get(position));
        let nodes = previous.nodes.iter().enumerate();
        Self(
            nodes
                .map(|(position, node)| (identity(&node.spec), (node.statistics.as_ref(), target(position))))
                .collect(),
        )
    }

    /// What is known is kept also while nothing asks for it.
    fn statistics(&self, node: &NodeSpec, asks: bool) -> Option<Arc<Statistics>> {
        let known = self.0.get(&identity(node)).and_then(|(statistics, _)| statistics.cloned());
        known.or_else(|| asks.then(Arc::default))
    }

    fn target(&self, node: &NodeSpec, kept: bool) -> Arc<Target> {
        let known = self.0.get(&identity(node)).filter(|_| kept);
        known.and_then(|(_, target)| target.cloned()).unwrap_or_default()
    }
}

fn identity(node: &NodeSpec) -> Identity<'_> {
    (&node.host, node.port, node.address)
}
