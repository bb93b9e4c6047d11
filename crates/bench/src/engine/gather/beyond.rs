//! What was seen beyond requests and answers.

use super::{ThreadResult, merge::merge};
use crate::{
    Plan, grpc,
    outcome::{Events, Grpc, GrpcStatus, Visits, WebSocket, latency::Latency},
};

/// `None` in a run of something else.
pub(super) fn grpc(plan: &Plan, harvests: &[ThreadResult]) -> Option<Grpc> {
    plan.options.grpc.as_ref()?;
    let calls = |code: usize| match code {
        0 => harvests.iter().map(|harvest| harvest.tally.completed).sum(),
        _ => harvests.iter().filter_map(|harvest| harvest.tally.beyond.grpc.failed.get(code)).sum(),
    };
    let status = |code: usize| GrpcStatus {
        code: code as u32,
        name: grpc::name(code as u32).into(),
        calls: calls(code),
    };
    let statuses = (0..grpc::CODES).map(status).filter(|one| one.calls > 0).collect();
    let messages = harvests.iter().map(|harvest| harvest.tally.beyond.grpc.messages).sum();
    Some(Grpc { statuses, messages })
}

/// (kind, how many) of calls that failed, by their code.
pub(crate) fn grpc_failures(grpc: Option<&Grpc>) -> impl Iterator<Item = (String, u64)> {
    let failed = grpc.into_iter().flat_map(|grpc| &grpc.statuses).filter(|one| one.code != 0);
    failed.map(|one| (format!("grpc-status {} {}", one.code, one.name), one.calls))
}

/// `None` in a run of something else.
pub(super) fn events(plan: &Plan, harvests: &[ThreadResult]) -> Option<Events> {
    if !plan.options.events {
        return None;
    }
    let all = || harvests.iter().map(|harvest| &harvest.tally.beyond.events);
    let gaps = merge(all().filter_map(|events| events.gaps.as_ref()));
    Some(Events {
        count: all().map(|events| events.count).sum(),
        gaps: gaps.as_ref().map(Latency::of).unwrap_or_default(),
        opened: all().map(|events| events.opened).sum(),
        ended: all().map(|events| events.ended).sum(),
        open: all().map(|events| events.open).sum(),
        silence_ms: all().map(|events| events.silence_ns).max().unwrap_or(0) as f64 / 1e6,
    })
}

/// `None` in a run of something else.
pub(super) fn websocket(plan: &Plan, harvests: &[ThreadResult]) -> Option<WebSocket> {
    plan.options.echo.as_ref()?;
    let all = || harvests.iter().map(|harvest| &harvest.tally.beyond.echo);
    let upgrades = merge(all().filter_map(|echo| echo.upgrades.as_ref()));
    Some(WebSocket {
        upgrades: upgrades.as_ref().map(Latency::of).unwrap_or_default(),
        others: all().map(|echo| echo.others).sum(),
    })
}

/// `None` in a run of something else.
pub(super) fn visits(plan: &Plan, harvests: &[ThreadResult]) -> Option<Visits> {
    if !plan.options.follow && !plan.options.cookies {
        return None;
    }
    let all = || harvests.iter().map(|harvest| &harvest.tally.beyond.visits);
    Some(Visits {
        redirects: all().map(|visits| visits.redirects).sum(),
        elsewhere: all().map(|visits| visits.elsewhere).sum(),
        cookies: all().map(|visits| visits.cookies).sum(),
    })
}
