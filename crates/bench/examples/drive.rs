//! The engine alone, for profiling: `drive URL CONNECTIONS SECONDS [RATE]`.

#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::{sync::Arc, time::Duration};

use tidegate_bench::{
    Plan, Problem, Protocol, engine,
    request::{Http1, RequestSpec},
    target::Origin,
};

fn main() -> Result<(), Problem> {
    let arguments: Vec<String> = std::env::args().collect();
    let usage = || Problem::usage("drive URL CONNECTIONS SECONDS [RATE]");
    let [_, url, connections, seconds, rest @ ..] = arguments.as_slice() else { return Err(usage()) };
    let (origin, path) = Origin::parse(url)?;
    let number = |text: &String| text.parse::<f64>().map_err(|_| usage());
    let plan = Plan {
        addresses: origin.resolve()?,
        origin,
        requests: vec![RequestSpec { method: "GET".into(), path, headers: Vec::new(), body: None }],
        connections: number(connections)? as usize,
        threads: 1,
        duration: Some(Duration::from_secs_f64(number(seconds)?)),
        count: None,
        rate: rest.first().map(number).transpose()?,
        protocol: Protocol::Http1(Http1 { version_10: false, keep_alive: true }),
        pipeline: 1,
        timeout: Duration::from_secs(10),
        tls: None,
        accepted_statuses: Vec::new(),
        options: Default::default(),
    };
    let outcome = engine::start(plan, Arc::default())?.finish()?;
    let client_us = outcome.client.cpu_seconds * 1e6 / outcome.requests.max(1) as f64;
    println!("{:.0} requests/s, client {client_us:.2} us/request", outcome.requests_per_second());
    println!("failed {}, statuses {:?}", outcome.failed(), outcome.statuses);
    for (percent, us) in &outcome.seen().percentiles {
        println!("{percent:>6} % {us:>10.1} us");
    }
    Ok(())
}
