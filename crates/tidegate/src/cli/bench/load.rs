//! The arguments of one run.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tidegate_bench::{
    reach::{ConnectTo, Resolve},
    report::Style,
};

use super::{
    stages::{ArrivalsName, Stages},
    time::Time,
};

#[derive(Args)]
pub(crate) struct Load {
    /// URLs to request in turn, all on one server; {{...}} are templates, see --help-templates
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// Number of concurrent connections [default: 10; 1 with --style jitter]
    #[arg(short = 'c', long, value_name = "N")]
    pub connections: Option<usize>,
    /// Number of threads [default: one per core, at most one per connection]
    #[arg(short = 't', long, value_name = "N")]
    pub threads: Option<usize>,
    /// Duration, such as 10s, 500ms or 2m [default: 10s, unless -n is given]
    #[arg(short = 'd', long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// Total number of requests
    #[arg(short = 'n', long, value_name = "N")]
    pub requests: Option<u64>,
    /// Requests per second, sent on schedule whether or not earlier ones are answered (open model)
    #[arg(short = 'R', long, value_name = "RATE", allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Rates over time, such as 10s:100,30s:1000: ramp up from 0 to 100, then to 1000 (open model)
    #[arg(long, value_name = "TIME:RATE,...", conflicts_with_all = ["rate", "duration"])]
    pub stages: Option<Stages>,
    /// With a rate, send requests at even intervals or at random (Poisson)
    #[arg(long, value_enum, value_name = "HOW", default_value_t = ArrivalsName::Uniform)]
    pub arrivals: ArrivalsName,
    /// Header to send, as 'Name: value'; may be given several times
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Method [default: GET, POST with --body]
    #[arg(short = 'm', long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Body to send; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
    /// File with one path or URL per line, optionally preceded by weight=N and a method; requested in turn
    #[arg(long, value_name = "FILE")]
    pub urls_from: Option<PathBuf>,
    /// Open a new connection for each request
    #[arg(long)]
    pub no_keepalive: bool,
    /// Concurrent requests per connection (streams, with --http2)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub pipeline: usize,
    /// Use HTTP/1.0
    #[arg(long = "http1.0")]
    pub http1_0: bool,
    /// Use HTTP/2: over TLS for an https:// URL, otherwise with prior knowledge
    #[arg(long, conflicts_with_all = ["http1_0", "no_keepalive"])]
    pub http2: bool,
    /// Call a gRPC method with --body as its message; the URL's path is /package.Service/Method
    #[arg(long, conflicts_with_all = ["http1_0", "no_keepalive", "method", "accept_status"])]
    pub grpc: bool,
    /// Hold a stream of server-sent events open on each connection and measure the gaps between events
    #[arg(long, conflicts_with_all = ["requests", "rate", "stages", "pipeline", "no_keepalive", "http1_0", "grpc"])]
    pub sse: bool,
    /// Send text messages over WebSocket (--body, or a short default) and measure the time to their echo
    #[arg(long, conflicts_with_all = ["pipeline", "no_keepalive", "http1_0", "grpc", "sse", "method", "accept_status"])]
    pub websocket: bool,
    /// Follow redirects on the same server, at most 10 in a row; they count as part of the request
    #[arg(long, conflicts_with_all = ["pipeline", "no_keepalive", "http1_0", "grpc", "sse", "websocket"])]
    pub follow: bool,
    /// Keep cookies and send them back, with one jar per connection
    #[arg(long, conflicts_with_all = ["pipeline", "no_keepalive", "http1_0", "grpc", "sse", "websocket"])]
    pub cookies: bool,
    /// Timeout of a request or connect
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub timeout: Time,
    /// Further statuses that are not failures, besides 2xx and 3xx, such as 429,503
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(100..=599))]
    pub accept_status: Vec<u16>,
    /// Exit with code 4 if this condition holds, such as p99>20ms, errors>0.1%, rps<5000 or 5xx>0; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// PEM file with the CA certificates to trust instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<String>,
    /// Accept any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// PEM file with the client certificate, and its key unless --key is given
    #[arg(long, value_name = "FILE")]
    pub cert: Option<String>,
    /// PEM file with the key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<String>,
    /// Do a full TLS handshake for each connection
    #[arg(long)]
    pub no_session_resumption: bool,
    /// Connect to this address for the host and port of the URL; may be given several times
    #[arg(long, value_name = "HOST:PORT:ADDRESS")]
    pub resolve: Vec<Resolve>,
    /// Connect to HOST2:PORT2 for HOST1:PORT1; an empty part matches any, or stays the same
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2")]
    pub connect_to: Vec<ConnectTo>,
    /// Connect to a Unix domain socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["resolve", "connect_to"])]
    pub unix: Option<PathBuf>,
    /// Print the report in the format of this tool
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = StyleName::Text)]
    pub style: StyleName,
    /// Do not show progress
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// With -R, open connections and send one request on each before the clock starts (the default)
    #[arg(long, overrides_with = "no_warmup")]
    pub warmup: bool,
    /// With -R, start the clock before connections are opened
    #[arg(long)]
    pub no_warmup: bool,
    /// After a closed-loop run of 1 s or more, do not test fewer connections to see whether the server is saturated
    #[arg(long)]
    pub no_probe: bool,
    /// Write the complete result to a file, for `tidegate bench compare`
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a report in Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write a report with charts as one HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write one row per 0.1 s
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write these rows and totals as JSON, one object per line
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// Write the figures as Prometheus metrics, for the textfile collector
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Sample this process with Linux perf during the run and draw a flame graph
    #[arg(long, value_name = "PID")]
    pub flamegraph: Option<u32>,
    /// Output file of the flame graph
    #[arg(long, value_name = "FILE", default_value = "flamegraph.svg", requires = "flamegraph")]
    pub flamegraph_file: PathBuf,
    /// Print the templates that {{...}} accepts
    #[arg(long)]
    pub help_templates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StyleName {
    Text,
    Wrk,
    Wrk2,
    Ab,
    Jitter,
    Json,
}

impl Load {
    pub(crate) fn speaks_http2(&self) -> bool {
        self.http2 || self.grpc
    }
}

impl From<StyleName> for Style {
    fn from(name: StyleName) -> Style {
        match name {
            StyleName::Text => Style::Text,
            StyleName::Wrk => Style::Wrk,
            StyleName::Wrk2 => Style::Wrk2,
            StyleName::Ab => Style::Ab,
            StyleName::Jitter => Style::Jitter,
            StyleName::Json => Style::Json,
        }
    }
}
