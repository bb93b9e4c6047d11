//! `tidegate bench selftest`: what the load tester says about servers whose cause is known, and about healthy ones.

mod servers;

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    Outcome, Plan, Problem, Protocol, control, diagnosis, engine,
    plan::Options,
    probe,
    request::{Http1, RequestSpec},
    target::Origin,
};
use servers::{Behaviour, Server};

/// A server, how it is asked, and what is to be said of it.
struct Case {
    name: &'static str,
    behaviour: Behaviour,
    connections: usize,
    rate: Option<f64>,
    keep_alive: bool,
    /// Empty: nothing. Of several with `or` between them each is true.
    wanted: &'static str,
}

const fn case(name: &'static str, behaviour: Behaviour, connections: usize, wanted: &'static str) -> Case {
    Case { name, behaviour, connections, rate: None, keep_alive: true, wanted }
}

const fn at(rate: f64, case: Case) -> Case {
    Case { rate: Some(rate), ..case }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("head and body in two writes", Behaviour::Nagle, 4, "delayed-ack"),
    at(80.0, case("the same at a rate", Behaviour::Nagle, 4, "delayed-ack")),
    case("0.5 % of the segments lost", Behaviour::Lossy(5), 4, "retransmission-timeout"),
    at(200.0, case("a full accept queue", Behaviour::NeverAccepts, 16, "connects-pending or syn-lost")),
    at(300.0, case("closes after each answer", Behaviour::Closes(1, true), 4, "keep-alive-off")),
    at(900.0, case("closes after 10, without notice", Behaviour::Closes(10, false), 4, "keep-alive-off")),
    at(900.0, case("closes after 100, with notice", Behaviour::Closes(100, true), 4, "connection-closes")),
    at(900.0, case("closes after 100, without notice", Behaviour::Closes(100, false), 4, "connection-closes")),
    at(400.0, case("one pause of 300 ms", Behaviour::PausesAt(&[(700, 300)]), 8, "pause")),
    at(100.0, case("one pause of 600 ms", Behaviour::PausesAt(&[(500, 600)]), 16, "pause")),
    at(300.0, case("pauses of 150 and 300 ms", Behaviour::PausesAt(&[(300, 150), (1200, 300)]), 8, "pause")),
    at(400.0, case("three pauses", Behaviour::PausesAt(&[(200, 120), (700, 200), (1500, 160)]), 8, "pause")),
    at(300.0, case("60 ms each 400 ms", Behaviour::Pauses(400, 60), 8, "comb")),
    at(200.0, case("80 ms each 300 ms", Behaviour::Pauses(300, 80), 16, "comb")),
    case("one at a time, 2 ms asleep", Behaviour::OneAtATime(2000, false), 16, "saturation"),
    case("one at a time, 1 ms of work", Behaviour::OneAtATime(1000, true), 16, "saturation"),
    at(800.0, case("a rate that is too high", Behaviour::OneAtATime(2000, false), 64, "saturation")),
    case("50 MB/s, answers of 1 MB", Behaviour::Bandwidth(50_000_000), 8, "bandwidth-bound"),
    case("20 MB/s, answers of 1 MB", Behaviour::Bandwidth(20_000_000), 4, "bandwidth-bound"),
    case("each second connection slower", Behaviour::Uneven(20), 8, "uneven-connections"),
    case("waits for 80 ms", Behaviour::Waits(80), 8, "upstream-bound"),
    case("waits for 15 ms", Behaviour::Waits(15), 8, "upstream-bound"),
    at(2000.0, case("plain", Behaviour::Plain, 8, "")),
    at(500.0, case("plain at a rate", Behaviour::Plain, 16, "")),
    Case { keep_alive: false, ..at(200.0, case("a connection and a thread for each", Behaviour::Plain, 4, "")) },
    case("40 ms each", Behaviour::Waits(40), 8, diagnosis::plateau::UNEXPLAINED),
    at(100.0, case("40 ms at a rate", Behaviour::Waits(40), 16, diagnosis::plateau::UNEXPLAINED)),
    case("45 ms each", Behaviour::Waits(45), 8, diagnosis::plateau::UNEXPLAINED),
    case("200 ms each", Behaviour::Waits(200), 16, diagnosis::plateau::UNEXPLAINED),
    at(400.0, case("1 % at 205 ms", Behaviour::Sometimes(100, 205), 32, diagnosis::plateau::UNEXPLAINED)),
    at(300.0, case("collects garbage", Behaviour::Collects, 8, "")),
    at(40.0, case("answers of 1 MB", Behaviour::Large, 4, "")),
];

/// What came of all runs.
#[derive(Debug)]
pub struct Table {
    /// For the terminal.
    pub text: String,
    /// Runs in which the right causes were named, and no others.
    pub right: usize,
    /// All runs.
    pub runs: usize,
    /// Runs in which a cause was named that was not there.
    pub falsely: usize,
}

/// Runs each case so often, for so long.
pub fn run(
    runs: usize,
    length: Duration,
    only: Option<&str>,
    stop: &Arc<AtomicBool>,
    told: &dyn Fn(&str),
) -> Result<Table, Problem> {
    let mut table = Table { text: String::new(), right: 0, runs: 0, falsely: 0 };
    // Writing to a String cannot fail.
    let _ = writeln!(table.text, "{:<36} {:<28} {:>5}  what else was said", "server", "wanted", "right");
    for case in CASES.iter().filter(|case| only.is_none_or(|only| case.name.contains(only))) {
        let (mut right, mut others) = (0, Vec::new());
        for _ in 0..runs {
            if stop.load(Relaxed) {
                break;
            }
            told(case.name);
            let names = case.measured(length, stop)?;
            table.runs += 1;
            // What sits at a value without a cause is said of no cause.
            let false_ones =
                names.iter().filter(|name| !case.wants(name) && *name != diagnosis::plateau::UNEXPLAINED);
            let said: Vec<String> = false_ones.cloned().collect();
            table.falsely += usize::from(!said.is_empty());
            let is_right = if case.wanted.is_empty() {
                said.is_empty()
            } else {
                names.iter().any(|name| case.wants(name))
            };
            right += usize::from(is_right && said.is_empty());
            others.extend(said);
        }
        table.right += right;
        others.sort_unstable();
        others.dedup();
        let wanted = if case.wanted.is_empty() { "nothing" } else { case.wanted };
        let _ = writeln!(
            table.text,
            "{:<36} {wanted:<28} {right:>2}/{runs:<2}  {}",
            case.name,
            others.join(", ")
        );
    }
    let _ = writeln!(
        table.text,
        "{} of {} runs right; in {} a cause was named that was not there",
        table.right, table.runs, table.falsely
    );
    Ok(table)
}

/// A run in which the load generator itself had to wait says nothing of the server; so often it is done again.
const TRIES: usize = 3;

impl Case {
    fn wants(&self, name: &str) -> bool {
        self.wanted.split(" or ").any(|wanted| wanted == name)
    }

    fn measured(&self, length: Duration, stop: &Arc<AtomicBool>) -> Result<Vec<String>, Problem> {
        let mut names = self.findings(length, stop)?;
        for _ in 1..TRIES {
            if !names.iter().any(|name| name == "client-bound") {
                break;
            }
            names = self.findings(length, stop)?;
        }
        Ok(names)
    }

    fn findings(&self, length: Duration, stop: &Arc<AtomicBool>) -> Result<Vec<String>, Problem> {
        let server = Server::start(self.behaviour).map_err(|error| {
            Problem::failed(format!("cannot start the server \"{}\": {error}", self.name))
        })?;
        let plan = self.plan(&server, length)?;
        let mut outcome: Outcome = engine::start(plan.clone(), Arc::clone(stop))?.finish()?;
        if probe::applies(&plan) {
            probe::run(&plan, &mut outcome, stop);
        }
        control::run(&plan, &mut outcome, stop);
        diagnosis::diagnose(&mut outcome);
        Ok(outcome.findings.into_iter().map(|finding| finding.name).collect())
    }

    fn plan(&self, server: &Server, length: Duration) -> Result<Plan, Problem> {
        let (origin, _) = Origin::parse(&format!("http://{}/", server.address))?;
        let path = "/".to_owned();
        Ok(Plan {
            addresses: vec![server.address],
            origin,
            requests: vec![RequestSpec { method: "GET".into(), path, headers: Vec::new(), body: None }],
            connections: self.connections,
            threads: 1,
            duration: Some(length),
            count: None,
            rate: self.rate,
            protocol: Protocol::Http1(Http1 { version_10: false, keep_alive: self.keep_alive }),
            pipeline: 1,
            timeout: Duration::from_secs(2),
            tls: None,
            accepted_statuses: Vec::new(),
            options: Options { warm_up: true, ..Options::default() },
        })
    }
}
