//! Figures of runs that are more than requests and answers: gRPC, server-sent events, WebSocket.

use super::units::{count, short, time};
use crate::{
    Outcome,
    outcome::{Events, Grpc, WebSocket},
};

/// (name, value) as people read them; none in a run of plain HTTP.
pub(super) fn rows(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(grpc) = &outcome.grpc {
        calls(&mut rows, grpc, outcome.seconds);
    }
    if let Some(streams) = &outcome.events {
        events(&mut rows, streams, outcome.seconds);
    }
    if let Some(websocket) = &outcome.websocket {
        upgrades(&mut rows, websocket);
    }
    if let Some(visits) = &outcome.visits {
        let [redirects, elsewhere, cookies] = [visits.redirects, visits.elsewhere, visits.cookies].map(count);
        rows.push(("redirects", format!("{redirects} followed, {elsewhere} to other servers were not")));
        rows.push(("cookies", format!("{cookies} set")));
    }
    rows
}

fn calls(rows: &mut Vec<(&'static str, String)>, grpc: &Grpc, seconds: f64) {
    let each: Vec<String> =
        grpc.statuses.iter().map(|one| format!("{} {}: {}", one.code, one.name, count(one.calls))).collect();
    rows.push(("gRPC", if each.is_empty() { "no call ended".into() } else { each.join(", ") }));
    let rate = grpc.messages as f64 / seconds.max(1e-9);
    let calls: u64 = grpc.statuses.iter().map(|one| one.calls).sum();
    let per_call = match calls {
        0 => String::new(),
        calls => format!(", {} a call", short(grpc.messages as f64 / calls as f64)),
    };
    rows.push(("messages", format!("{} ({rate:.0}/s){per_call}", count(grpc.messages))));
}

fn events(rows: &mut Vec<(&'static str, String)>, events: &Events, seconds: f64) {
    let rate = events.count as f64 / seconds.max(1e-9);
    rows.push(("events", format!("{} ({rate:.0}/s)", count(events.count))));
    let [opened, ended, open] = [events.opened, events.ended, events.open].map(count);
    rows.push(("streams", format!("{opened} began, {ended} ended by the server, {open} open at the end")));
    let gaps = &events.gaps;
    let [p50, p90, p99, p999] = [50.0, 90.0, 99.0, 99.9].map(|percent| time(gaps.at(percent)));
    let cut = if events.silence_ms * 1000.0 > gaps.max_us { " (cut by the end of the run)" } else { "" };
    let longest = time(events.longest_us());
    rows.push(("gaps", format!("p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, longest {longest}{cut}")));
}

fn upgrades(rows: &mut Vec<(&'static str, String)>, websocket: &WebSocket) {
    let upgrades = &websocket.upgrades;
    let [p50, max] = [upgrades.at(50.0), upgrades.max_us].map(time);
    rows.push(("upgrades", format!("{}, p50 {p50}, max {max}, the connect included", count(upgrades.count))));
    if websocket.others > 0 {
        let others = count(websocket.others);
        rows.push(("no echo", format!("{others} unexpected messages")));
    }
}
