//! `tidegate bench URL`: one run.

use std::{process::ExitCode, sync::Arc};

use load::{
    Outcome, Plan, Problem, Protocol, engine, flame, interrupt, preflight, probe,
    report::{self, Style},
    request::{Http1, RequestSpec},
    system,
    target::Origin,
    tls::{self, TlsOptions},
};

use super::{
    INTERRUPTED, PARTLY_FAILED,
    arguments::{Load, StyleName},
    files, progress,
};

const DEFAULT_CONNECTIONS: usize = 10;
const DEFAULT_SECONDS: u64 = 10;
/// What the sequential test sends by default.
const JITTER_REQUESTS: u64 = 10_000;

pub fn run(arguments: &Load) -> Result<ExitCode, Problem> {
    if arguments.help_templates {
        print!("{}", load::template::HELP);
        return Ok(ExitCode::SUCCESS);
    }
    let plan = plan(arguments)?;
    plan.check()?;
    preflight::check(&plan)?;
    let stop = interrupt::flag()?;
    let total = plan.duration;
    let recording = arguments.flamegraph.map(flame::Recording::start).transpose()?;
    let running = engine::start(plan.clone(), Arc::clone(&stop))?;
    progress::follow(&running, total, arguments.quiet);
    let mut outcome = running.finish()?;
    if wants_probe(arguments) && probe::applies(&plan) {
        progress::say("the same with fewer connections ...", arguments.quiet);
        probe::run(&plan, &mut outcome, &stop);
        progress::say("", arguments.quiet);
    }
    load::diagnosis::diagnose(&mut outcome);
    write(arguments, &outcome)?;
    // After the report: a process that may not be sampled does not cost the figures.
    if let Some(recording) = recording {
        files::write(&arguments.flamegraph_file, &recording.finish()?)?;
    }
    Ok(exit(&outcome))
}

/// Where nobody reads findings the probe would cost time for nothing; in a flame graph it would be seen.
fn wants_probe(arguments: &Load) -> bool {
    let style = matches!(arguments.style, StyleName::Text | StyleName::Json);
    let file = [&arguments.json, &arguments.markdown, &arguments.html].iter().any(|path| path.is_some());
    !arguments.no_probe && arguments.flamegraph.is_none() && (style || file)
}

fn write(arguments: &Load, outcome: &Outcome) -> Result<(), Problem> {
    print!("{}", report::render(Style::from(arguments.style), outcome)?);
    if let Some(path) = &arguments.json {
        files::write(path, &report::json(outcome)?)?;
    }
    if let Some(path) = &arguments.markdown {
        files::write(path, &report::markdown::render(outcome))?;
    }
    if let Some(path) = &arguments.html {
        files::write(path, &report::html::render(outcome)?)?;
    }
    Ok(())
}

fn exit(outcome: &Outcome) -> ExitCode {
    if outcome.interrupted {
        return ExitCode::from(INTERRUPTED);
    }
    if outcome.requests == 0 {
        let why = outcome.messages.first().map_or("no answer came in time", |(message, _)| message);
        eprintln!("tidegate bench: nothing was measured: {why}");
        return ExitCode::FAILURE;
    }
    if outcome.failed() + outcome.bad_statuses > 0 {
        eprintln!(
            "tidegate bench: {} requests failed and {} answers had a status of 400 or more (exit code {PARTLY_FAILED})",
            outcome.failed(),
            outcome.bad_statuses
        );
        return ExitCode::from(PARTLY_FAILED);
    }
    ExitCode::SUCCESS
}

pub fn plan(arguments: &Load) -> Result<Plan, Problem> {
    let jitter = arguments.style == StyleName::Jitter;
    let (origin, requests) = requests(arguments)?;
    let connections = arguments.connections.unwrap_or(if jitter { 1 } else { DEFAULT_CONNECTIONS });
    if jitter && connections != 1 {
        return Err(Problem::usage("--style jitter is one request after the other; it needs -c 1"));
    }
    let count = arguments.requests.or((jitter && arguments.duration.is_none()).then_some(JITTER_REQUESTS));
    let duration = match (arguments.duration, count) {
        (Some(time), _) => Some(time.0),
        (None, Some(_)) => None,
        (None, None) => Some(std::time::Duration::from_secs(DEFAULT_SECONDS)),
    };
    let form = Http1 { version_10: arguments.http1_0, keep_alive: !arguments.no_keepalive };
    let tls = if origin.tls {
        let options = TlsOptions {
            ca_file: arguments.cacert.clone(),
            insecure: arguments.insecure,
            http2: arguments.http2,
        };
        Some(tls::config(&options)?)
    } else {
        None
    };
    Ok(Plan {
        addresses: origin.resolve()?,
        origin,
        requests,
        connections,
        threads: arguments.threads.unwrap_or_else(|| system::cpus().min(connections.max(1))),
        duration,
        count,
        rate: arguments.rate,
        protocol: if arguments.http2 { Protocol::Http2 } else { Protocol::Http1(form) },
        pipeline: arguments.pipeline,
        timeout: arguments.timeout.0,
        tls,
        accepted_statuses: arguments.accept_status.clone(),
    })
}

/// The one server of all URLs, and what is asked of it.
fn requests(arguments: &Load) -> Result<(Origin, Vec<RequestSpec>), Problem> {
    let body = body(arguments)?;
    let usual = arguments.method.clone().unwrap_or(if body.is_some() { "POST".into() } else { "GET".into() });
    let headers: Result<Vec<_>, _> = arguments.headers.iter().map(|line| header(line)).collect();
    let headers = headers?;
    let mut wanted: Vec<(String, String)> =
        arguments.urls.iter().map(|url| (usual.clone(), url.clone())).collect();
    if let Some(path) = &arguments.urls_from {
        for line in files::read(path)?.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            wanted.push(match line.split_once(' ') {
                Some((method, url)) if method.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                    (method.to_owned(), url.trim().to_owned())
                }
                _ => (usual.clone(), line.to_owned()),
            });
        }
    }
    let mut origin: Option<Origin> = None;
    let mut requests = Vec::new();
    for (at, (method, url)) in wanted.iter().enumerate() {
        let path = match (&origin, url.starts_with('/')) {
            (Some(_), true) => url.clone(),
            _ => {
                let (found, path) = Origin::parse(url)?;
                if origin.as_ref().is_some_and(|first| *first != found) {
                    return Err(Problem::usage(format!(
                        "{url} is on another server than the first URL; measure one server at a time"
                    )));
                }
                origin = Some(found);
                path
            }
        };
        // The first URL of a list may only name the server.
        if at == 0 && arguments.urls_from.is_some() && !arguments.urls.is_empty() {
            continue;
        }
        requests.push(RequestSpec {
            method: method.clone(),
            path,
            headers: headers.clone(),
            body: body.clone(),
        });
    }
    let origin = origin.ok_or_else(|| Problem::usage("give a URL, such as http://127.0.0.1:9080/"))?;
    Ok((origin, requests))
}

fn header(line: &str) -> Result<(String, String), Problem> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| Problem::usage(format!("-H {line:?}: a header is written 'Name: value'")))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn body(arguments: &Load) -> Result<Option<String>, Problem> {
    match arguments.body.as_deref() {
        None => Ok(None),
        Some(text) => match text.strip_prefix('@') {
            Some(file) => files::read(file.as_ref()).map(Some),
            None => Ok(Some(text.to_owned())),
        },
    }
}
