//! Active health checks.
//!
//! An upstream is probed from about a second after its first request until it is no longer in the list. Healthy
//! and unhealthy nodes have separate intervals; `concurrency` nodes are probed at a time.

mod request;
mod tls;

use std::{collections::HashMap, sync::Arc, time::Duration};

use tidegate_balancing::{Health, Source, Upstream, health::Transition};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

pub use request::probe;
pub use tls::ProbeTls;

/// An upstream in use, under the name that goes to the log.
#[derive(Clone)]
pub struct Monitored {
    /// As the Control API and the log show it.
    pub name: Arc<str>,
    /// What holds its checks and targets.
    pub upstream: Arc<dyn AsRef<Upstream> + Send + Sync>,
}

impl Monitored {
    /// Its checks and targets.
    pub fn upstream(&self) -> &Upstream {
        (*self.upstream).as_ref()
    }
}

/// Called when a probe changed the state of the node with this number.
pub(crate) type OnTransition = Arc<dyn Fn(&Monitored, u16, Transition) + Send + Sync>;

/// Probes run while this lives.
pub struct Monitor {
    upstreams: watch::Sender<Vec<Monitored>>,
    supervisor: JoinHandle<()>,
}

/// How soon the first use of an upstream is noticed.
const NOTICE: Duration = Duration::from_secs(1);

impl Monitor {
    /// Without upstreams: nothing is probed until some are given.
    pub fn spawn(runtime: &Handle, tls: ProbeTls, on_transition: OnTransition) -> Self {
        let (upstreams, receiver) = watch::channel(Vec::new());
        let supervisor = runtime.spawn(supervise(receiver, Prober { tls, on_transition }));
        Self { upstreams, supervisor }
    }

    /// Replaces the list, after every change of the configuration. Upstreams without checks are ignored; one that
    /// is the same `Arc` as before continues without a pause.
    pub fn set(&self, mut upstreams: Vec<Monitored>) {
        upstreams.retain(|monitored| monitored.upstream().health.is_some());
        self.upstreams.send_replace(upstreams);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

#[derive(Clone)]
struct Prober {
    tls: ProbeTls,
    on_transition: OnTransition,
}

/// Starts what is used for the first time and ends what is gone. Dropping the set ends everything.
async fn supervise(mut upstreams: watch::Receiver<Vec<Monitored>>, prober: Prober) {
    let mut tasks = JoinSet::new();
    // Each entry holds its upstream, so that an address names one upstream as long as it is here.
    let mut running: HashMap<usize, (Monitored, tokio::task::AbortHandle)> = HashMap::new();
    let mut notice = interval(NOTICE);
    notice.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = notice.tick() => {}
            changed = upstreams.changed() => if changed.is_err() { return },
            Some(_) = tasks.join_next() => continue,
        }
        let wanted = upstreams.borrow_and_update().clone();
        let wanted: HashMap<_, _> =
            wanted.into_iter().map(|monitored| (identity(&monitored), monitored)).collect();
        running.retain(|identity, (_, task)| {
            let kept = wanted.contains_key(identity);
            if !kept {
                task.abort();
            }
            kept
        });
        for (identity, monitored) in wanted {
            let used = monitored.upstream().health.as_deref().is_some_and(Health::is_used);
            if used && !running.contains_key(&identity) {
                let task = tasks.spawn(watch_over(monitored.clone(), prober.clone()));
                running.insert(identity, (monitored, task));
            }
        }
    }
}

fn identity(monitored: &Monitored) -> usize {
    Arc::as_ptr(&monitored.upstream).addr()
}

async fn watch_over(monitored: Monitored, prober: Prober) {
    let Some(health) = &monitored.upstream().health else { return };
    let active = &health.checks.active;
    let mut healthy = interval(Duration::from_secs(active.healthy_interval_s.max(1)));
    let mut unhealthy = interval(Duration::from_secs(active.unhealthy_interval_s.max(1)));
    healthy.set_missed_tick_behavior(MissedTickBehavior::Delay);
    unhealthy.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let usable = tokio::select! {
            _ = healthy.tick() => true,
            _ = unhealthy.tick() => false,
        };
        let nodes: Vec<u16> = (0u16..)
            .zip(&health.targets)
            .filter(|(_, target)| target.state().is_usable() == usable)
            .map(|(node, _)| node)
            .collect();
        probe_all(&monitored, &prober, nodes, active.concurrency).await;
    }
}

/// One pass over the nodes, divided among `concurrency` tasks.
async fn probe_all(monitored: &Monitored, prober: &Prober, nodes: Vec<u16>, concurrency: usize) {
    let nodes: Arc<[u16]> = nodes.into();
    let lanes = concurrency.clamp(1, nodes.len().max(1));
    let mut tasks = JoinSet::new();
    for lane in 0..lanes {
        let (monitored, prober, nodes) = (monitored.clone(), prober.clone(), Arc::clone(&nodes));
        tasks.spawn(async move {
            for node in nodes.iter().skip(lane).step_by(lanes) {
                let outcome = probe(monitored.upstream(), *node, &prober.tls).await;
                let Some(outcome) = outcome else { continue };
                if let Some(transition) = monitored.upstream().report(*node, Source::Active, outcome) {
                    (prober.on_transition)(&monitored, *node, transition);
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}
