//! `tidegate bench URL`: one run.

use std::{process::ExitCode, sync::Arc};

use tidegate_bench::{
    Outcome, Plan, Problem, Protocol,
    condition::Condition,
    control, engine, flame, interrupt,
    plan::{Options, options, stages::Ramp},
    preflight, probe, reach,
    report::Style,
    request::Http1,
    system,
    target::Origin,
    tls::{self, TlsOptions},
};

use super::{
    events,
    exit::{CONDITION_MET, INTERRUPTED, PARTLY_FAILED},
    files, grpc,
    load::{Load, StyleName},
    progress,
    reports::{self, Reports},
    requests::{self, Wanted},
    websocket,
};
use crate::say::complain;

const DEFAULT_CONNECTIONS: usize = 10;
const DEFAULT_SECONDS: u64 = 10;
/// What the sequential test sends by default.
const JITTER_REQUESTS: u64 = 10_000;

pub(super) fn run(arguments: &Load) -> Result<ExitCode, Problem> {
    if arguments.help_templates {
        files::print(tidegate_bench::template::HELP)?;
        return Ok(ExitCode::SUCCESS);
    }
    let conditions: Result<Vec<Condition>, Problem> =
        arguments.fail_if.iter().map(|text| text.parse()).collect();
    let conditions = conditions?;
    let plan = plan(arguments)?;
    plan.check()?;
    let reports = Reports::open(arguments)?;
    preflight::check(&plan)?;
    let stop = interrupt::flag()?;
    let total = plan.duration;
    let recording = arguments.flamegraph.map(flame::Recording::start).transpose()?;
    let running = engine::start(plan.clone(), Arc::clone(&stop))?;
    progress::follow(&running, total, arguments.quiet);
    let mut outcome = running.finish()?;
    if wants_probe(arguments) && probe::applies(&plan) {
        progress::show("repeating with fewer connections ...", arguments.quiet);
        probe::run(&plan, &mut outcome, &stop);
        progress::show("", arguments.quiet);
    }
    if wants_probe(arguments) {
        control::run(&plan, &mut outcome, &stop);
    }
    tidegate_bench::diagnosis::diagnose(&mut outcome);
    outcome.verdicts = conditions.iter().map(|condition| condition.evaluate(&outcome)).collect();
    let flame_graph = reports.write(Style::from(arguments.style), &outcome)?;
    // After the report: a process that may not be sampled does not cost the figures.
    if let Some((recording, file)) = recording.zip(flame_graph) {
        file.write(&recording.finish()?)?;
    }
    Ok(exit(&outcome, conditions.iter().any(Condition::is_about_errors)))
}

/// Where no report shows findings, the probe would cost time for nothing; in a flame graph it would be seen.
fn wants_probe(arguments: &Load) -> bool {
    let style = matches!(arguments.style, StyleName::Text | StyleName::Json);
    !arguments.no_probe
        && !arguments.sse
        && arguments.flamegraph.is_none()
        && (style || reports::any(arguments))
}

/// `errors_are_judged`: a condition says how many errors a run may have.
fn exit(outcome: &Outcome, errors_are_judged: bool) -> ExitCode {
    if outcome.interrupted {
        return ExitCode::from(INTERRUPTED);
    }
    let no_event = outcome.events.as_ref().is_some_and(|events| events.count == 0);
    // Streams that outlast the run have no end that would count.
    let only_messages = outcome.grpc.as_ref().is_some_and(|grpc| grpc.messages > 0) && outcome.failed() == 0;
    if (outcome.requests == 0 && !only_messages) || no_event {
        let usual = if no_event { "no event came in time" } else { "no answer came in time" };
        let why = outcome.messages.first().map_or(usual, |(message, _)| message);
        complain!("tidegate bench: nothing was measured: {why}");
        return ExitCode::FAILURE;
    }
    let met: Vec<_> = outcome.verdicts.iter().filter(|verdict| verdict.failed).collect();
    for verdict in &met {
        complain!(
            "tidegate bench: --fail-if '{}': it was {} (exit code {CONDITION_MET})",
            verdict.condition,
            verdict.shown
        );
    }
    if !met.is_empty() {
        return ExitCode::from(CONDITION_MET);
    }
    if outcome.failed() + outcome.bad_statuses > 0 && !errors_are_judged {
        complain!(
            "tidegate bench: {} requests failed and {} answers had a status of 400 or more (exit code {PARTLY_FAILED})",
            outcome.failed(),
            outcome.bad_statuses
        );
        return ExitCode::from(PARTLY_FAILED);
    }
    ExitCode::SUCCESS
}

pub(super) fn plan(arguments: &Load) -> Result<Plan, Problem> {
    let jitter = arguments.style == StyleName::Jitter;
    events::check(arguments)?;
    let Wanted { origin, requests, order } = requests::wanted(arguments)?;
    let connections = arguments.connections.unwrap_or(if jitter { 1 } else { DEFAULT_CONNECTIONS });
    if jitter && connections != 1 {
        return Err(Problem::usage("--style jitter sends one request at a time; it needs -c 1"));
    }
    let count = arguments.requests.or((jitter && arguments.duration.is_none()).then_some(JITTER_REQUESTS));
    let stages = arguments.stages.clone().map(|stages| stages.0).unwrap_or_default();
    let duration = match (arguments.duration, count) {
        _ if !stages.is_empty() => Some(options::length(&stages)),
        (Some(time), _) => Some(time.0),
        (None, Some(_)) => None,
        (None, None) => Some(std::time::Duration::from_secs(DEFAULT_SECONDS)),
    };
    let mean = |length: std::time::Duration| Ramp::of(&stages).total() / length.as_secs_f64();
    let rate = if stages.is_empty() { arguments.rate } else { duration.map(mean) };
    let form = Http1 { version_10: arguments.http1_0, keep_alive: !arguments.no_keepalive };
    let addresses = match arguments.unix {
        Some(_) => Vec::new(),
        None => reach::addresses(&origin, &arguments.resolve, &arguments.connect_to)?,
    };
    let options = Options {
        stages,
        arrivals: arguments.arrivals.into(),
        order,
        unix: arguments.unix.clone(),
        follow: arguments.follow,
        cookies: arguments.cookies,
        events: arguments.sse,
        echo: arguments.websocket.then(|| websocket::message(arguments)).transpose()?,
        grpc: arguments.grpc.then(|| grpc::message(arguments)).transpose()?,
        warm_up: !arguments.no_warmup,
        acknowledgements: None,
    };
    Ok(Plan {
        addresses,
        tls: tls(arguments, &origin)?,
        origin,
        requests,
        connections,
        threads: arguments.threads.unwrap_or_else(|| system::cpus().min(connections.max(1))),
        duration,
        count,
        rate,
        protocol: if arguments.speaks_http2() { Protocol::Http2 } else { Protocol::Http1(form) },
        pipeline: arguments.pipeline,
        timeout: arguments.timeout.0,
        accepted_statuses: arguments.accept_status.clone(),
        options,
    })
}

fn tls(arguments: &Load, origin: &Origin) -> Result<Option<Arc<rustls::ClientConfig>>, Problem> {
    if !origin.tls {
        let given = [
            ("--cert", arguments.cert.is_some()),
            ("--cacert", arguments.cacert.is_some()),
            ("-k", arguments.insecure),
            ("--no-session-resumption", arguments.no_session_resumption),
        ];
        return match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((flag, _)) => Err(Problem::usage(format!("{flag} is for https:// URLs"))),
        };
    }
    let key = arguments.key.as_ref().or(arguments.cert.as_ref());
    let options = TlsOptions {
        ca_file: arguments.cacert.clone(),
        insecure: arguments.insecure,
        client: arguments.cert.clone().zip(key.cloned()),
        no_resumption: arguments.no_session_resumption,
        http2: arguments.speaks_http2(),
    };
    tls::config(&options).map(Some)
}
