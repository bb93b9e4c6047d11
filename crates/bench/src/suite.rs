//! Scenario matrices: `perf/suites/*.yaml`. Every target of a scenario is measured in turn, several times; the
//! target that goes first alternates, and medians are shown with their spread. What differs less than the spread is
//! noise.

mod background;
mod peers;
mod process;
mod runner;
mod table;
mod tidegate;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use runner::Measured;
pub use runner::{Runner, Settings};
pub use table::{markdown, summary};

use crate::Problem;

/// One file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// For the report.
    pub name: String,
    /// What it shows, in a sentence; stands above the table.
    pub about: String,
    /// Seconds of each measurement, and before it.
    #[serde(default = "ten")]
    pub seconds: f64,
    #[serde(default = "two")]
    pub(crate) warmup_seconds: f64,
    #[serde(default = "five")]
    pub(crate) repetitions: usize,
    /// Bytes of the upstream's page.
    #[serde(default = "kibibyte")]
    pub page_bytes: usize,
    /// Columns of the table.
    #[serde(default = "figures")]
    pub figures: Vec<Figure>,
    /// The targets to measure, unless a scenario says otherwise.
    #[serde(default)]
    pub targets: Vec<String>,
    /// In the order of the report.
    pub scenarios: Vec<Scenario>,
}

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Throughput.
    RequestsPerSecond,
    /// CPU of the server per request, in microseconds.
    CpuUs,
    /// Mean latency in microseconds.
    MeanUs,
    /// Median latency in microseconds.
    P50Us,
    /// 95th percentile in microseconds.
    P95Us,
    /// 99th percentile in microseconds.
    P99Us,
    /// 99.9th percentile in microseconds.
    P999Us,
    /// Greatest latency in microseconds.
    MaxUs,
    /// Requests over 10 ms.
    Over10Ms,
}

/// What is sent, and what gateways are set up to do with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For the report.
    pub name: String,
    /// Names of those that are measured.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Of the request.
    #[serde(default = "root")]
    pub path: String,
    /// Of the request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Open at a time.
    #[serde(default = "sixty_four")]
    pub connections: usize,
    /// Whether connections are used again.
    #[serde(default = "yes")]
    pub keepalive: bool,
    #[serde(default)]
    pub(crate) http10: bool,
    /// Requests a second; without it as many as go.
    pub rate: Option<f64>,
    /// A run ends after this many requests, in place of after seconds.
    pub requests: Option<u64>,
    /// Of each target.
    #[serde(default = "one")]
    pub workers: Workers,
    /// How Tidegate is configured.
    #[serde(default)]
    pub gateway: Gateway,
    #[serde(default)]
    pub(crate) background: Background,
}

/// How many workers a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Workers {
    /// This many.
    Count(usize),
    /// `all`: one for each core.
    Named(AllCores),
}

/// A worker for each core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllCores {
    /// The word `all`.
    All,
}

impl Workers {
    /// On this machine.
    pub fn count(self) -> usize {
        match self {
            Workers::Count(count) => count,
            Workers::Named(AllCores::All) => crate::system::cpus(),
        }
    }
}

/// How a gateway with plugins is set up. nginx and haproxy proxy without plugins whatever stands here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Routes `/route/0`, `/route/1`, ... beside the one for everything else.
    #[serde(default)]
    pub routes: usize,
    /// Consumers `consumer_0` with key `key-0`, ...
    #[serde(default)]
    pub consumers: usize,
    /// Plugins of every route.
    #[serde(default)]
    pub plugins: serde_json::Map<String, serde_json::Value>,
    /// Whether requests are logged.
    #[serde(default)]
    pub access_log: bool,
}

/// What happens beside the requests. Only in gateways with an Admin API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Metrics pages fetched in a second.
    #[serde(default)]
    pub scrapes_per_second: f64,
    /// Routes written in a second.
    #[serde(default)]
    pub changes_per_second: f64,
}

impl Suite {
    /// A suite that was read: what types do not say. `file` is its name, for messages.
    pub fn checked(mut self, file: &str) -> Result<Suite, Problem> {
        let wrong = |why: String| Problem::usage(format!("{file}: {why}"));
        if self.scenarios.is_empty() {
            return Err(wrong("no scenarios".into()));
        }
        if !(self.seconds > 0.0 && self.warmup_seconds >= 0.0 && self.repetitions > 0) {
            return Err(wrong("seconds and repetitions must be more than 0".into()));
        }
        for scenario in &mut self.scenarios {
            if scenario.targets.is_empty() {
                scenario.targets.clone_from(&self.targets);
            }
            if scenario.targets.is_empty() {
                return Err(wrong(format!("scenario {:?} has no targets", scenario.name)));
            }
        }
        Ok(self)
    }

    /// Short enough for all suites in a quarter of an hour; the figures are rougher.
    pub fn quick(&mut self) {
        self.seconds = self.seconds.min(1.5);
        self.warmup_seconds = self.warmup_seconds.min(0.3);
        self.repetitions = self.repetitions.min(3);
    }
}

fn ten() -> f64 {
    10.0
}
fn two() -> f64 {
    2.0
}
fn five() -> usize {
    5
}
fn kibibyte() -> usize {
    1024
}
fn sixty_four() -> usize {
    64
}
fn yes() -> bool {
    true
}
fn one() -> Workers {
    Workers::Count(1)
}
fn root() -> String {
    "/".into()
}
fn figures() -> Vec<Figure> {
    vec![Figure::RequestsPerSecond, Figure::CpuUs, Figure::P50Us, Figure::P99Us]
}
