//! Runs a suite: starts the servers of a scenario, measures them in turn, ends them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tempfile::TempDir;

use super::{
    Figure, Scenario, Suite,
    background::Busy,
    peers,
    process::{Cores, Started, stay_on},
    tidegate::Tidegate,
};
use crate::{
    Outcome, Plan, Problem, Protocol, engine,
    request::{Http1, RequestSpec},
    target::Origin,
};

/// How suites are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The binary that is started for the target `tidegate`.
    pub binary: PathBuf,
    /// (name, URL) of servers that the suite did not start.
    pub external: Vec<(String, String)>,
    /// Set by a signal: no further measurement is begun.
    pub stop: Arc<std::sync::atomic::AtomicBool>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Measured {
    pub scenario: String,
    pub target: String,
    /// The values of each repetition, in the order of the suite's figures.
    pub values: Vec<Vec<f64>>,
    pub failed: u64,
    /// Why the target was left out.
    pub left_out: Option<String>,
}

/// Runs a suite.
pub struct Runner<'a> {
    suite: &'a Suite,
    settings: &'a Settings,
    say: &'a mut dyn FnMut(String),
}

enum Server {
    Started { _process: Started, _folder: TempDir },
    Tidegate { gateway: Tidegate, _folder: TempDir },
    External,
}

struct Target {
    name: String,
    server: Server,
    origin: Origin,
}

impl<'a> Runner<'a> {
    /// `say` gets a line for each step.
    pub fn new(suite: &'a Suite, settings: &'a Settings, say: &'a mut dyn FnMut(String)) -> Runner<'a> {
        Runner { suite, settings, say }
    }

    /// All repetitions of all scenarios, targets in turn.
    pub fn run(&mut self) -> Result<Vec<Measured>, Problem> {
        let mut all = Vec::new();
        for scenario in &self.suite.scenarios {
            if self.stopped() {
                break;
            }
            all.extend(self.scenario(scenario)?);
        }
        stay_on(Cores::Anywhere);
        Ok(all)
    }

    fn stopped(&self) -> bool {
        self.settings.stop.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn scenario(&mut self, scenario: &Scenario) -> Result<Vec<Measured>, Problem> {
        // With several workers there is no core that they leave to others.
        let workers = scenario.workers.count();
        let (gateways, others) =
            if workers == 1 { (Cores::Gateway, Cores::Others) } else { (Cores::Anywhere, Cores::Anywhere) };
        stay_on(others);
        let folder = folder()?;
        let upstream = peers::upstream(folder.path(), self.suite.page_bytes, 1)?;
        let (mut targets, mut measured) = (Vec::new(), Vec::new());
        for name in &scenario.targets {
            stay_on(if name == "direct" { others } else { gateways });
            let started = self.start(name, scenario, &upstream, workers);
            stay_on(others);
            let (target, left_out) = match started {
                Ok(target) => (Some(target), None),
                Err(problem) => (None, Some(problem.text)),
            };
            if let Some(reason) = &left_out {
                (self.say)(format!("{}: {name} is left out: {reason}", scenario.name));
            }
            measured.push(Measured {
                scenario: scenario.name.clone(),
                target: name.clone(),
                values: Vec::new(),
                failed: 0,
                left_out,
            });
            targets.push(target);
        }
        for (name, url) in &self.settings.external {
            let (origin, _) = Origin::parse(url)?;
            targets.push(Some(Target { name: name.clone(), server: Server::External, origin }));
            measured.push(Measured {
                scenario: scenario.name.clone(),
                target: name.clone(),
                values: Vec::new(),
                failed: 0,
                left_out: None,
            });
        }
        self.repeat(scenario, &targets, &mut measured)?;
        Ok(measured)
    }

    fn repeat(
        &mut self,
        scenario: &Scenario,
        targets: &[Option<Target>],
        measured: &mut [Measured],
    ) -> Result<(), Problem> {
        for repetition in 0..self.suite.repetitions {
            let mut order: Vec<usize> = (0..targets.len()).collect();
            if repetition % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let (Some(Some(target)), Some(row)) = (targets.get(at), measured.get_mut(at)) else {
                    continue;
                };
                if self.stopped() {
                    return Ok(());
                }
                if repetition == 0 && self.suite.warmup_seconds > 0.0 {
                    send(target, scenario, self.suite.warmup_seconds, None)?;
                }
                let gateway = match &target.server {
                    Server::Tidegate { gateway, .. } => Some(gateway),
                    Server::Started { .. } | Server::External => None,
                };
                let busy = Busy::start(scenario.background, gateway);
                let outcome = measure(target, scenario, self.suite.seconds, scenario.requests)?;
                busy.finish()?;
                row.failed += outcome.failed() + outcome.bad_statuses;
                row.values.push(self.suite.figures.iter().map(|&figure| value(figure, &outcome)).collect());
                (self.say)(format!(
                    "{}: {} {}/{}: {:.0}/s, p99 {:.0} us",
                    scenario.name,
                    target.name,
                    repetition + 1,
                    self.suite.repetitions,
                    outcome.requests_per_second(),
                    outcome.seen().at(99.0)
                ));
            }
        }
        Ok(())
    }

    fn start(
        &self,
        name: &str,
        scenario: &Scenario,
        upstream: &Started,
        workers: usize,
    ) -> Result<Target, Problem> {
        let folder = folder()?;
        let at = |address: std::net::SocketAddr| Origin {
            tls: false,
            host: address.ip().to_string(),
            port: address.port(),
        };
        let process = match name {
            "direct" => {
                return Ok(Target {
                    name: name.into(),
                    server: Server::External,
                    origin: at(upstream.address),
                });
            }
            "tidegate" => {
                let gateway = Tidegate::start(
                    &self.settings.binary,
                    folder.path(),
                    upstream.address,
                    workers,
                    &scenario.gateway,
                )?;
                let origin = at(gateway.process.address);
                return Ok(Target {
                    name: name.into(),
                    server: Server::Tidegate { gateway, _folder: folder },
                    origin,
                });
            }
            "nginx" => peers::nginx_gateway(folder.path(), upstream.address, workers)?,
            "haproxy" => peers::haproxy(folder.path(), upstream.address, workers)?,
            "hyperapi" => peers::hyperapi(folder.path(), upstream.address)?,
            other => {
                return Err(Problem::failed(format!(
                    "unknown target; start it and add --target {other}=URL"
                )));
            }
        };
        let origin = at(process.address);
        Ok(Target {
            name: name.into(),
            server: Server::Started { _process: process, _folder: folder },
            origin,
        })
    }
}

fn folder() -> Result<TempDir, Problem> {
    tempfile::tempdir().map_err(|error| Problem::failed(format!("cannot make a temporary folder: {error}")))
}

fn send(
    target: &Target,
    scenario: &Scenario,
    seconds: f64,
    requests: Option<u64>,
) -> Result<Outcome, Problem> {
    let headers = scenario.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let form = Http1 { version_10: scenario.http10, keep_alive: scenario.keepalive };
    let plan = Plan {
        addresses: target.origin.resolve()?,
        origin: target.origin.clone(),
        requests: vec![RequestSpec {
            method: "GET".into(),
            path: scenario.path.clone(),
            headers,
            body: None,
        }],
        connections: scenario.connections,
        threads: 1,
        // A run that ends by its count is still not endless.
        duration: Some(Duration::from_secs_f64(if requests.is_some() { 60.0 } else { seconds })),
        count: requests,
        rate: scenario.rate,
        protocol: Protocol::Http1(form),
        pipeline: 1,
        timeout: Duration::from_secs(10),
        tls: None,
        accepted_statuses: Vec::new(),
        options: Default::default(),
    };
    engine::start(plan, Arc::default())?.finish()
}

fn measure(
    target: &Target,
    scenario: &Scenario,
    seconds: f64,
    requests: Option<u64>,
) -> Result<Outcome, Problem> {
    let outcome = send(target, scenario, seconds, requests)?;
    if outcome.requests == 0 {
        let why = outcome.messages.first().map_or("no answer", |(message, _)| message);
        return Err(Problem::failed(format!(
            "{} of {}: nothing was measured: {why}",
            scenario.name, target.name
        )));
    }
    Ok(outcome)
}

fn value(figure: Figure, outcome: &Outcome) -> f64 {
    let seen = outcome.seen();
    match figure {
        Figure::RequestsPerSecond => outcome.requests_per_second(),
        Figure::CpuUs => outcome.server_cpu_us().unwrap_or(f64::NAN),
        Figure::MeanUs => seen.mean_us,
        Figure::P50Us => seen.at(50.0),
        Figure::P95Us => seen.at(95.0),
        Figure::P99Us => seen.at(99.0),
        Figure::P999Us => seen.at(99.9),
        Figure::MaxUs => seen.max_us,
        Figure::Over10Ms => seen.between_ms(10.0, f64::INFINITY) as f64,
    }
}
