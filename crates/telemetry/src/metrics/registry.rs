//! The control side: knows all groups and blocks, renders them, retires what expired.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::Format;
use super::block::Block;
use super::group::{Group, GroupBuilder};
use super::series::Family;
use super::shard::{NewBlock, Shard, Signals};
use super::taken::{Places, Seen, TakenRequests, take};
use super::text::{Kind, TextWriter};
use crate::background::give_way;

/// Every metric of the process; cheap to clone. Its lock is taken by control threads only.
#[derive(Clone, Debug)]
pub struct Registry {
    prefix: Arc<str>,
    control: Arc<Mutex<Control>>,
}

/// The results of a rendering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderStats {
    pub series: usize,
    pub blocks: usize,
    /// Lookups since start that found their group full.
    pub overflowed: u64,
}

#[derive(Debug)]
struct Control {
    families: Vec<Family>,
    family_by_name: HashMap<String, usize>,
    groups: usize,
    blocks: Vec<Tracked>,
    /// Of the group that counts requests.
    requests: Option<Arc<Places>>,
    /// The shortest of the groups that expire at all.
    shortest_expiry: Option<Duration>,
    shards: Vec<Arc<Signals>>,
    created: Sender<NewBlock>,
    arriving: Receiver<NewBlock>,
    /// Bytes of the last page: the next one is not copied from one piece of memory to the next as it grows.
    last_page: usize,
}

/// A block, the series each of its members feeds, and when it last changed.
#[derive(Debug)]
struct Tracked {
    group: Group,
    block: Arc<Block>,
    pub(super) seen: Seen,
    key: Option<u64>,
    feeds: Box<[(usize, usize)]>,
    fingerprint: u64,
    changed: Instant,
    signals: Weak<Signals>,
}

impl Registry {
    /// `prefix` starts every family's name: APISIX's is `apisix_`.
    pub fn new(prefix: &str) -> Self {
        let (created, arriving) = channel();
        let control = Control {
            families: Vec::new(),
            family_by_name: HashMap::new(),
            groups: 0,
            blocks: Vec::new(),
            requests: None,
            shortest_expiry: None,
            shards: Vec::new(),
            created,
            arriving,
            last_page: 0,
        };
        Registry { prefix: prefix.into(), control: Arc::new(Mutex::new(control)) }
    }

    /// Registers a group. Cells handed out by the builder are valid for blocks of this group only.
    pub fn group(&self, builder: GroupBuilder) -> Group {
        let mut control = self.lock();
        let group = builder.finish(control.groups);
        control.groups += 1;
        let expiry = Some(group.0.expire).filter(|expiry| !expiry.is_zero());
        control.shortest_expiry = control.shortest_expiry.into_iter().chain(expiry).min();
        for member in &group.0.members {
            if !control.family_by_name.contains_key(&member.family.name) {
                let index = control.families.len();
                control.families.push(Family::new(member.family.clone()));
                control.family_by_name.insert(member.family.name.clone(), index);
            }
        }
        group
    }

    /// A worker's shard.
    pub fn shard(&self) -> Shard {
        let mut control = self.lock();
        let signals = Arc::new(Signals::default());
        control.shards.push(Arc::clone(&signals));
        Shard::new(control.created.clone(), signals)
    }

    /// After what time the first series expire; `None`: none do.
    pub fn shortest_expiry(&self) -> Option<Duration> {
        self.lock().shortest_expiry
    }

    /// Looks for series that were not touched, as a rendering does. To be called a few times within
    /// [`Registry::shortest_expiry`]: renderings alone may be too far apart.
    pub fn expire_series(&self) {
        self.expire_series_at(Instant::now());
    }

    /// As [`Registry::expire_series`], with the time that decides what expired.
    pub(crate) fn expire_series_at(&self, now: Instant) {
        let mut control = self.lock();
        control.accept(now);
        control.expire(now);
    }

    /// All metrics as a page, written into `out`, whose content goes. `collect` adds families that are computed now (connections, upstream health).
    pub fn render(
        &self,
        format: Format,
        out: Vec<u8>,
        collect: impl FnOnce(&mut TextWriter),
    ) -> (Vec<u8>, RenderStats) {
        self.render_at(Instant::now(), format, out, collect)
    }

    /// As [`Registry::render`], with the time that decides what expired.
    pub(crate) fn render_at(
        &self,
        now: Instant,
        format: Format,
        mut out: Vec<u8>,
        collect: impl FnOnce(&mut TextWriter),
    ) -> (Vec<u8>, RenderStats) {
        self.expire_series_at(now);
        let mut control = self.lock();
        control.sum();
        let overflowed = control.shards.iter().map(|shard| shard.overflowed.load(Relaxed)).sum();
        let stats = RenderStats {
            series: control.families.iter().map(Family::len).sum(),
            blocks: control.blocks.len(),
            overflowed,
        };
        let room = control.last_page + control.last_page / 8;
        if out.capacity() / 4 > room {
            // Of a time with many more series.
            out = Vec::new();
        }
        out.clear();
        out.reserve(room);
        let mut text = TextWriter { out, format };
        for family in &control.families {
            family.write(&self.prefix, &mut text);
        }
        control.last_page = text.out.len();
        drop(control);
        let name = format!("{}metric_series_overflow_total", self.prefix);
        text.family(&name, "Updates that found their label set over the series limit", Kind::Counter);
        text.line_integer(&name, "", "", overflowed);
        // The name that APISIX's dashboards watch for metrics that could not be kept.
        let name = format!("{}nginx_metric_errors_total", self.prefix);
        text.family(
            &name,
            "Number of metric updates that were not counted under their labels",
            Kind::Counter,
        );
        text.line_integer(&name, "", "", overflowed);
        collect(&mut text);
        (text.finish(), stats)
    }

    /// Shows what requests have added since the last call. For one caller: what it was shown is not shown again.
    pub fn take_requests(&self, mut visit: impl FnMut(&TakenRequests<'_>)) {
        let mut control = self.lock();
        control.accept(Instant::now());
        let Some(places) = control.requests.clone() else { return };
        for Tracked { group, block, seen, .. } in &mut control.blocks {
            give_way();
            if group.same(&places.group) {
                take(&places, block, seen, &mut visit);
            }
        }
    }

    /// Which cells count requests, for [`Registry::take_requests`].
    pub(super) fn set_requests(&self, places: Places) {
        self.lock().requests = Some(Arc::new(places));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Control> {
        // A panic while rendering leaves only sums behind, which the next rendering resets.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    fn accept(&mut self, now: Instant) {
        while let Ok(NewBlock { group, block, key, signals }) = self.arriving.try_recv() {
            let mut feeds = Vec::with_capacity(group.0.members.len());
            for member in &group.0.members {
                let Some(index) = self.family_by_name.get(&member.family.name).copied() else { continue };
                let Some(family) = self.families.get_mut(index) else { continue };
                feeds.push((index, family.attach(member, &group.0.label_names, block.labels())));
            }
            let feeds = feeds.into_boxed_slice();
            let (seen, fingerprint) = (None, 0);
            self.blocks.push(Tracked { group, block, seen, key, feeds, fingerprint, changed: now, signals });
        }
    }

    /// Retires blocks that did not change for their group's time. A count the worker adds in the instant
    /// between the last look and the retirement is lost with the series it belonged to.
    fn expire(&mut self, now: Instant) {
        let Control { blocks, families, .. } = self;
        blocks.retain_mut(|tracked| {
            give_way();
            let after = tracked.group.0.expire;
            if after.is_zero() {
                return true;
            }
            let fingerprint =
                tracked.block.values().fold(1, |hash: u64, value| hash.wrapping_mul(31).wrapping_add(value));
            if fingerprint != tracked.fingerprint {
                tracked.fingerprint = fingerprint;
                tracked.changed = now;
                return true;
            }
            if now.saturating_duration_since(tracked.changed) < after {
                return true;
            }
            tracked.block.retire();
            let (spec, block) = (&tracked.group.0, &tracked.block);
            if let Some(key) = tracked.key {
                spec.budget.give_back(key, &block.want(spec));
            }
            if let Some(signals) = tracked.signals.upgrade() {
                signals.retired.fetch_add(1, Relaxed);
            }
            for (member, (family, slot)) in tracked.group.0.members.iter().zip(&tracked.feeds) {
                if let Some(family) = families.get_mut(*family) {
                    family.detach(*slot, member, &tracked.block);
                }
            }
            false
        });
    }

    fn sum(&mut self) {
        self.families.iter_mut().for_each(Family::clear_sums);
        for tracked in &self.blocks {
            for (member, (family, slot)) in tracked.group.0.members.iter().zip(&tracked.feeds) {
                if let Some(family) = self.families.get_mut(*family) {
                    family.add(*slot, member, &tracked.block);
                }
            }
            give_way();
        }
    }
}

#[cfg(test)]
mod tests;
