//! Puts together what the threads brought home.

mod beyond;
mod merge;
mod parts;

use std::{collections::BTreeMap, sync::PoisonError};

use hdrhistogram::Histogram;

use self::merge::merge;
use super::{
    failure::Failure,
    harvest::ThreadResult,
    lives::Lives,
    slot::Slot,
    tally::{FINE_NS, SLOT_NS, SharedSlots},
};
use crate::{
    Outcome, Plan,
    outcome::{Client, Series, SlotFigures, latency::Latency},
    system::{Counters, Machine, sockets::Sockets},
};

/// Slots that an outcome keeps; longer runs get longer slots.
const MAX_SLOTS: usize = 600;

pub(super) fn outcome(plan: &Plan, harvests: Vec<ThreadResult>, slots: &[SharedSlots]) -> Outcome {
    let merged = |of: fn(&ThreadResult) -> Option<&Histogram<u64>>| merge(harvests.iter().filter_map(of));
    let corrected = merged(|harvest| harvest.tally.corrected.as_ref());
    let raw = merged(|harvest| Some(&harvest.tally.raw));
    let handshake = merged(|harvest| Some(&harvest.tally.handshake));
    let sum = |of: fn(&ThreadResult) -> u64| harvests.iter().map(of).sum::<u64>();
    let seconds = harvests.iter().map(|harvest| harvest.end_ns).max().unwrap_or(0) as f64 / 1e9;
    let statuses = statuses(&harvests);
    let bad = statuses.iter().filter(|(status, _)| !plan.accepts(*status)).map(|(_, count)| count).sum();
    let grpc = beyond::grpc(plan, &harvests);
    Outcome {
        url: format!("{}{}", plan.origin.url(), plan.requests.first().map_or("/", |first| &first.path)),
        protocol: plan.protocol_name().into(),
        connections: plan.connections,
        threads: plan.threads,
        rate: plan.rate,
        schedule: plan.schedule(),
        keep_alive: plan.protocol.keep_alive(),
        pipeline: plan.pipeline,
        seconds,
        requests: sum(|harvest| harvest.tally.completed),
        bytes_in: sum(|harvest| harvest.tally.bytes_in),
        bytes_out: sum(|harvest| harvest.tally.bytes_out),
        body_bytes: sum(|harvest| harvest.tally.body_bytes),
        server_software: harvests
            .iter()
            .map(|harvest| harvest.server.clone())
            .find(|name| !name.is_empty())
            .unwrap_or_default(),
        latency: raw.as_ref().map(Latency::of).unwrap_or_default(),
        first_byte: parts::first_byte(&harvests, raw.as_ref()),
        by_status: parts::by_status(&harvests, corrected.as_ref().or(raw.as_ref())),
        by_url: parts::by_url(plan, &harvests),
        corrected: corrected.as_ref().map(Latency::of),
        connect: merged(|harvest| Some(&harvest.tally.connect)).as_ref().map(Latency::of).unwrap_or_default(),
        tls_handshake: plan.tls.as_ref().and(handshake.as_ref()).map(Latency::of),
        bad_statuses: bad,
        statuses,
        failures: failures(&harvests).into_iter().chain(beyond::grpc_failures(grpc.as_ref())).collect(),
        messages: messages(&harvests),
        grpc,
        events: beyond::events(plan, &harvests),
        websocket: beyond::websocket(plan, &harvests),
        visits: beyond::visits(plan, &harvests),
        server_closes: sum(|harvest| harvest.tally.server_closes),
        unfinished: sum(|harvest| harvest.tally.unfinished),
        oldest_unfinished_ms: harvests
            .iter()
            .map(|harvest| harvest.tally.oldest_unfinished_ns)
            .max()
            .unwrap_or(0) as f64
            / 1e6,
        unsent: sum(|harvest| harvest.tally.unsent),
        interrupted: false,
        series: series(&harvests, slots),
        per_connection: harvests
            .iter()
            .flat_map(|harvest| &harvest.connections)
            .map(|&(count, usual)| (count, usual as f64 / 1000.0))
            .collect(),
        client: client(&harvests),
        server: None,
        counters: Counters::default(),
        machine: Machine::read(),
        sockets: harvests.iter().fold(Sockets::default(), |mut sum, harvest| {
            sum.add(&harvest.sockets);
            sum
        }),
        warm_up: plan.warms_up(),
        lives: harvests.iter().fold(Lives::default(), |mut sum, harvest| {
            sum.add(&harvest.tally.lives);
            sum
        }),
        unopened: harvests.iter().map(|harvest| harvest.unopened).sum(),
        control: Vec::new(),
        probe: Vec::new(),
        findings: Vec::new(),
        verdicts: Vec::new(),
    }
}

fn statuses(harvests: &[ThreadResult]) -> Vec<(u16, u64)> {
    let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
    for harvest in harvests {
        for (status, &count) in harvest.tally.statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
            *sums.entry(status as u16).or_default() += count;
        }
    }
    sums.into_iter().collect()
}

fn failures(harvests: &[ThreadResult]) -> Vec<(String, u64)> {
    let of = |failure: Failure| {
        harvests.iter().filter_map(|harvest| harvest.tally.failures.get(failure as usize)).sum::<u64>()
    };
    let all = Failure::ALL.map(|failure| (failure.name().to_owned(), of(failure)));
    let by_code = Failure::Grpc.name();
    all.into_iter().filter(|(name, count)| *count > 0 && name != by_code).collect()
}

fn messages(harvests: &[ThreadResult]) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (message, count) in harvests.iter().flat_map(|harvest| &harvest.tally.messages) {
        *sums.entry(message).or_default() += count;
    }
    let mut all: Vec<(String, u64)> =
        sums.into_iter().map(|(message, count)| (message.to_owned(), count)).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

fn series(harvests: &[ThreadResult], shared: &[SharedSlots]) -> Series {
    let mut slots: Vec<Slot> = Vec::new();
    for thread in shared {
        let thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() < thread.len() {
            slots.resize(thread.len(), Slot::default());
        }
        slots.iter_mut().zip(thread.iter()).for_each(|(sum, slot)| sum.add(slot));
    }
    let mut slot_ms = SLOT_NS / 1_000_000;
    while slots.len() > MAX_SLOTS {
        slot_ms *= 2;
        slots = slots
            .chunks(2)
            .map(|pair| {
                let mut sum = Slot::default();
                pair.iter().for_each(|slot| sum.add(slot));
                sum
            })
            .collect();
    }
    let mut fine = Vec::new();
    for harvest in harvests {
        if fine.len() < harvest.tally.fine.len() {
            fine.resize(harvest.tally.fine.len(), 0);
        }
        fine.iter_mut().zip(&harvest.tally.fine).for_each(|(max, &one)| *max = (*max).max(one));
    }
    Series {
        slot_ms,
        slots: slots.iter().map(SlotFigures::of).collect(),
        fine_ms: FINE_NS / 1_000_000,
        fine_max_us: fine,
    }
}

fn client(harvests: &[ThreadResult]) -> Client {
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let whole: u64 = harvests.iter().map(|harvest| harvest.end_ns).sum();
    Client {
        cpu_seconds: harvests.iter().map(|harvest| harvest.cpu_ns).sum::<u64>() as f64 / 1e9,
        busiest_thread: harvests
            .iter()
            .map(|harvest| share(harvest.cpu_ns, harvest.end_ns))
            .fold(0.0, f64::max),
        waiting_share: share(harvests.iter().map(|harvest| harvest.waited_ns).sum(), whole),
    }
}
