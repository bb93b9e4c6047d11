//! What a run saw, in a form that can be stored, compared and printed.

pub(super) mod after;
mod beyond;
pub(super) mod latency;
mod parts;

use serde::{Deserialize, Serialize};

use self::after::{Arm, ConditionResult, Step};
use crate::{
    engine::{lives::Lives, slot::Slot},
    system::{Counters, Machine, sockets::Sockets},
};

pub(crate) use beyond::{Events, GrpcStatus, Visits};
pub use beyond::{Grpc, WebSocket};
pub(crate) use parts::{ByStatus, ByUrl};

pub use self::latency::{Latency, SHOWN};

/// The result of a run; what `--json` writes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The first one.
    pub url: String,
    /// Such as `HTTP/1.1`.
    pub protocol: String,
    /// Open at a time.
    pub connections: usize,
    /// Of the load generator.
    pub threads: usize,
    /// The mean of it, where it changes.
    pub rate: Option<f64>,
    /// Stages and arrivals in words, where there is more to say than the rate.
    #[serde(default)]
    pub schedule: Option<String>,
    /// Whether connections were used again.
    pub keep_alive: bool,
    /// Requests of a connection at a time.
    pub pipeline: usize,
    /// Of the run, warm-up excluded.
    pub seconds: f64,
    /// Responses that arrived whole.
    pub requests: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Of bodies alone.
    pub body_bytes: u64,
    pub(crate) server_software: String,
    /// From sending a request to its whole answer.
    pub latency: Latency,
    /// From the moment it was due: what a user would have waited. Runs at a constant rate only.
    pub corrected: Option<Latency>,
    /// From sending a request to the first byte of its answer.
    #[serde(default)]
    pub first_byte: Latency,
    #[serde(default)]
    pub(crate) by_status: Vec<ByStatus>,
    /// Of runs with several requests.
    #[serde(default)]
    pub by_url: Vec<ByUrl>,
    /// Of runs with `--grpc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
    /// Of runs with `--sse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Of runs with `--websocket`, whose requests are messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<WebSocket>,
    /// Of runs with `--follow` or `--cookies`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Visits>,
    pub(crate) connect: Latency,
    pub(crate) tls_handshake: Option<Latency>,
    /// (status, how many).
    pub statuses: Vec<(u16, u64)>,
    /// Answers whose status is not accepted.
    pub bad_statuses: u64,
    /// (kind, how many).
    pub failures: Vec<(String, u64)>,
    /// Texts of failures, and how often each occurred.
    pub messages: Vec<(String, u64)>,
    pub(crate) server_closes: u64,
    pub(crate) unfinished: u64,
    pub(crate) oldest_unfinished_ms: f64,
    pub(crate) unsent: u64,
    /// Whether the user ended the run.
    pub interrupted: bool,
    /// Figures for each tenth of a second.
    pub series: Series,
    /// (answers, usual latency in microseconds, which is the geometric mean) of each connection.
    pub(crate) per_connection: Vec<(u64, f64)>,
    /// What the load generator used.
    pub client: Client,
    /// The process behind the port, when it is on this machine.
    pub server: Option<Server>,
    pub(crate) counters: Counters,
    /// Connections were opened, and used once, before the clock started.
    #[serde(default)]
    pub warm_up: bool,
    #[serde(default)]
    pub(crate) lives: Lives,
    /// Connections that were never open.
    #[serde(default)]
    pub unopened: usize,
    /// Of this run's own connections.
    #[serde(default)]
    pub sockets: Sockets,
    pub(crate) machine: Machine,
    /// The same requests on another connection, where latencies gather at a value of TCP's timers.
    #[serde(default)]
    pub control: Vec<Arm>,
    /// What fewer connections gave afterwards; fewest first.
    #[serde(default)]
    pub probe: Vec<Step>,
    #[serde(default)]
    pub(crate) findings: Vec<Finding>,
    /// What `--fail-if` came to.
    #[serde(default)]
    pub verdicts: Vec<ConditionResult>,
}

impl Outcome {
    /// When requests were sent, in words.
    pub fn model(&self) -> String {
        if self.events.is_some() {
            return "streams held open".into();
        }
        match (&self.schedule, self.rate) {
            (Some(schedule), _) => format!("{schedule} (open model)"),
            (None, Some(rate)) => format!("{rate} requests/s (open model)"),
            (None, None) => "closed loop".into(),
        }
    }

    /// Responses per second.
    pub fn requests_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 }
    }

    /// What a user waits: corrected where there is a rate.
    pub fn seen(&self) -> &Latency {
        self.corrected.as_ref().unwrap_or(&self.latency)
    }

    /// Requests without a response.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn failures_of(&self, kind: &str) -> u64 {
        self.failures.iter().filter(|(name, _)| name == kind).map(|(_, count)| count).sum()
    }

    /// CPU microseconds of the server for each request.
    pub(crate) fn server_cpu_us(&self) -> Option<f64> {
        let server = self.server.as_ref().filter(|server| !server.is_gone)?;
        (self.requests > 0).then(|| server.cpu_seconds * 1e6 / self.requests as f64)
    }
}

/// The run over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// Length of a slot in milliseconds.
    pub(crate) slot_ms: u64,
    pub(crate) slots: Vec<SlotFigures>,
    /// Length of a fine step, and the slowest request that began in each, in microseconds.
    pub(crate) fine_ms: u64,
    pub(crate) fine_max_us: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SlotFigures {
    /// Responses.
    pub count: u64,
    /// Failures.
    pub errors: u64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    pub(crate) max_us: f64,
    /// (coarse step, count): what resampling needs.
    pub steps: Vec<(usize, u64)>,
}

impl SlotFigures {
    /// The figures of a slot.
    pub(crate) fn of(slot: &Slot) -> SlotFigures {
        let us = |ns: u64| ns as f64 / 1000.0;
        SlotFigures {
            count: slot.count,
            errors: slot.errors,
            p50_us: us(slot.percentile_ns(50.0)),
            p99_us: us(slot.percentile_ns(99.0)),
            mean_us: us(slot.mean_ns()),
            max_us: us(slot.max_ns),
            steps: slot.used().collect(),
        }
    }
}

/// The load generator itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Of all its threads.
    pub cpu_seconds: f64,
    /// CPU of the busiest thread as a share of the run.
    pub(crate) busiest_thread: f64,
    /// Time that the threads were ready but had no CPU, as a share of their run.
    pub(crate) waiting_share: f64,
}

/// What the server used, where it runs on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Of its process.
    pub name: String,
    pub(crate) processes: usize,
    /// Of the process and its children.
    pub cpu_seconds: f64,
    /// CPU of the thread that wanted most of it, as a share of the run, and how long that thread was ready but had none.
    #[serde(default)]
    pub(crate) busiest_thread: f64,
    #[serde(default)]
    pub(crate) busiest_waited: f64,
    pub(crate) memory_kib: u64,
    /// Processes of it began or ended during the run: some of their CPU time may not be counted.
    #[serde(default)]
    pub(crate) comes_and_goes: bool,
    /// All processes that listened at the beginning have ended: what they and their successors used is not known.
    #[serde(default)]
    pub(crate) is_gone: bool,
}

/// A cause of latency, named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, such as `delayed-ack`.
    pub name: String,
    pub(crate) title: String,
    /// What was seen.
    pub(crate) evidence: Vec<String>,
    pub(crate) remedy: String,
    /// Seconds into the run at which it was seen, for the charts.
    #[serde(default)]
    pub marks: Vec<f64>,
}
