//! Metrics of gRPC, server-sent events, WebSocket and redirects.

use std::fmt::{Result, Write};

use super::lines::{head, summary};
use crate::Outcome;

pub(super) fn write(out: &mut String, url: &str, outcome: &Outcome) -> Result {
    if let Some(grpc) = &outcome.grpc {
        head(out, "grpc_calls", "gauge", "Calls by grpc-status.")?;
        for one in &grpc.statuses {
            let (code, calls) = (one.code, one.calls);
            writeln!(out, "tidegate_bench_grpc_calls{{{url},code=\"{code}\"}} {calls}")?;
        }
        head(out, "grpc_messages", "gauge", "Messages of all answers.")?;
        writeln!(out, "tidegate_bench_grpc_messages{{{url}}} {}", grpc.messages)?;
    }
    if let Some(events) = &outcome.events {
        head(out, "events", "gauge", "Server-sent events.")?;
        writeln!(out, "tidegate_bench_events{{{url}}} {}", events.count)?;
        head(out, "event_streams", "gauge", "Streams that began, were ended, and were open at the end.")?;
        for (state, count) in [("began", events.opened), ("ended", events.ended), ("open", events.open)] {
            writeln!(out, "tidegate_bench_event_streams{{{url},state=\"{state}\"}} {count}")?;
        }
        head(out, "event_gap_seconds", "summary", "Time between one event and the next of a stream.")?;
        summary(out, "event_gap_seconds", url, &events.gaps)?;
        head(out, "event_gap_longest_seconds", "gauge", "The longest gap, one cut by the end included.")?;
        writeln!(out, "tidegate_bench_event_gap_longest_seconds{{{url}}} {}", events.longest_us() / 1e6)?;
    }
    if let Some(websocket) = &outcome.websocket {
        head(out, "upgrade_seconds", "summary", "Time from connecting to the upgrade to WebSocket.")?;
        summary(out, "upgrade_seconds", url, &websocket.upgrades)?;
    }
    if let Some(visits) = &outcome.visits {
        head(out, "redirects", "gauge", "Redirects that were followed.")?;
        writeln!(out, "tidegate_bench_redirects{{{url}}} {}", visits.redirects)?;
    }
    Ok(())
}
