//! Has Chaitin SafeLine, a web application firewall, judge requests.

mod exchange;
mod frames;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use exchange::{Failure, Server, Timeouts};
use frames::{Question, Said};
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, RequestBody, SchemaKind, Step,
    Variable, Why, step::Verdict,
};
use tidegate_routing::expr::Expression;
use tidegate_telemetry::error_log::{self, Level};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "chaitin-waf",
    version: 0.1,
    priority: 2700,
    schema: include_str!("chaitin_waf.json"),
    metadata_schema: Some(include_str!("chaitin_waf.metadata.json")),
    phases: Phases::ACCESS,
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

const STATE: &str = "X-APISIX-CHAITIN-WAF";
const TIME: &str = "X-APISIX-CHAITIN-WAF-TIME";
const STATUS: &str = "X-APISIX-CHAITIN-WAF-STATUS";
const ACTION: &str = "X-APISIX-CHAITIN-WAF-ACTION";
const ERROR: &str = "X-APISIX-CHAITIN-WAF-ERROR";
const SERVER: &str = "X-APISIX-CHAITIN-WAF-SERVER";

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Off,
    #[default]
    Monitor,
    Block,
}

#[derive(Deserialize)]
struct Conf {
    mode: Option<Mode>,
    #[serde(default, rename = "match")]
    matches: Vec<Match>,
    append_waf_resp_header: bool,
    append_waf_debug_header: bool,
    #[serde(default)]
    config: Config,
}

#[derive(Deserialize)]
struct Match {
    vars: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    mode: Option<Mode>,
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    config: Config,
}

#[derive(Deserialize)]
struct Node {
    host: String,
    port: u16,
}

/// Milliseconds, KiB, connections.
#[derive(Clone, Default, Deserialize)]
struct Config {
    connect_timeout: Option<u64>,
    send_timeout: Option<u64>,
    read_timeout: Option<u64>,
    req_body_size: Option<usize>,
    keepalive_size: Option<usize>,
    keepalive_timeout: Option<u64>,
    real_client_ip: Option<bool>,
}

impl Config {
    /// What it does not say, the other one does.
    fn over(self, other: Config) -> Config {
        Config {
            connect_timeout: self.connect_timeout.or(other.connect_timeout),
            send_timeout: self.send_timeout.or(other.send_timeout),
            read_timeout: self.read_timeout.or(other.read_timeout),
            req_body_size: self.req_body_size.or(other.req_body_size),
            keepalive_size: self.keepalive_size.or(other.keepalive_size),
            keepalive_timeout: self.keepalive_timeout.or(other.keepalive_timeout),
            real_client_ip: self.real_client_ip.or(other.real_client_ip),
        }
    }
}

fn expressions(conf: &Conf) -> Result<Vec<Expression<Variable>>, String> {
    let rules = conf.matches.iter().filter_map(|rule| rule.vars.as_ref());
    let compiled = rules.map(|rule| {
        Expression::compile(rule, &mut |name| Variable::resolve(name))
            .map_err(|reason| format!("failed to validate the 'vars' expression: {reason}"))
    });
    compiled.collect()
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    match kind {
        SchemaKind::Plugin => expressions(&typed(conf)?).map(|_| ()),
        _ => Ok(()),
    }
}

/// Rules of which none has a condition: no request meets one.
fn remarks(conf: &Value) -> Vec<String> {
    let rules = conf.get("match").and_then(Value::as_array).filter(|rules| !rules.is_empty());
    let judges_none = rules.is_some_and(|rules| rules.iter().all(|rule| rule.get("vars").is_none()));
    let remark = "match: no rule has vars, so no request is judged; leave match out to have all judged";
    judges_none.then(|| remark.to_owned()).into_iter().collect()
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let metadata: Metadata = context.metadata.map(typed).transpose()?.unwrap_or_default();
    let matches = expressions(&conf)?;
    let config = conf.config.over(metadata.config);
    let milliseconds = |value: Option<u64>, usual: u64| Duration::from_millis(value.unwrap_or(usual));
    Ok(Arc::new(ChaitinWaf {
        mode: conf.mode.or(metadata.mode).unwrap_or_default(),
        has_rules: !conf.matches.is_empty(),
        matches,
        servers: metadata.nodes.iter().map(|node| Server::new(&node.host, node.port)).collect(),
        next: AtomicUsize::new(0),
        tells: conf.append_waf_resp_header,
        tells_more: conf.append_waf_debug_header,
        timeouts: Timeouts {
            connect: milliseconds(config.connect_timeout, 1000),
            send: milliseconds(config.send_timeout, 1000),
            read: milliseconds(config.read_timeout, 1000),
            idle: milliseconds(config.keepalive_timeout, 60_000),
            kept: config.keepalive_size.unwrap_or(256),
        },
        body_bytes: config.req_body_size.unwrap_or(1024).saturating_mul(1024),
        takes_announced_client: config.real_client_ip.unwrap_or(true),
    }))
}

struct ChaitinWaf {
    mode: Mode,
    has_rules: bool,
    /// One of them must hold, if there are rules.
    matches: Vec<Expression<Variable>>,
    servers: Vec<Server>,
    /// The server whose turn it is.
    next: AtomicUsize,
    tells: bool,
    tells_more: bool,
    timeouts: Timeouts,
    body_bytes: usize,
    takes_announced_client: bool,
}

impl Plugin for ChaitinWaf {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.inspect(request))
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Asks)
    }
}

impl ChaitinWaf {
    fn set_header(&self, request: &mut Request, name: &str, value: impl AsRef<[u8]>) {
        let is_more = matches!(name, ERROR | SERVER);
        if self.tells && (self.tells_more || !is_more) {
            request.early_headers.set(name, value);
        }
    }

    async fn inspect(&self, request: &mut Request) -> Verdict {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(server) = turn.checked_rem(self.servers.len()).and_then(|turn| self.servers.get(turn))
        else {
            error_log::log(Level::Error, format_args!("chaitin-waf: its metadata has no nodes"));
            self.set_header(request, STATE, "err");
            self.set_header(request, ERROR, "missing metadata");
            return Err(Box::new(Reply::page(500)));
        };
        self.set_header(request, SERVER, &server.host);
        if self.mode == Mode::Off {
            self.set_header(request, STATE, "off");
            return Ok(());
        }
        if self.has_rules {
            let limit = tidegate_plugin_api::condition_body_bytes();
            let holds = |request: &Request| self.matches.iter().any(|rule| rule.eval(request));
            if !request.decide(limit, holds).await? {
                self.set_header(request, STATE, "no");
                return Ok(());
            }
        }
        self.read_body(request).await?;
        let asked = Instant::now();
        let client = match self.takes_announced_client {
            true => request.remote_addr,
            false => request.connection.peer.ip().to_canonical(),
        };
        let question = Question::of(request, client, self.body_bytes);
        let said = server.ask(&question, &self.timeouts).await;
        self.set_header(request, TIME, asked.elapsed().as_millis().to_string());
        match said {
            Ok(said) => self.decide(request, said),
            Err(failure) => self.failed(request, &failure),
        }
    }

    /// The part of the body that is judged is the start of what the upstream gets: all of it is read.
    async fn read_body(&self, request: &mut Request) -> Verdict {
        if matches!(request.body, RequestBody::Unread { .. }) {
            request.collect_body(MOST_COLLECTED).await?;
        }
        Ok(())
    }

    fn failed(&self, request: &mut Request, failure: &Failure) -> Verdict {
        let state = if matches!(failure, Failure::TimedOut(_)) { "timeout" } else { "waf-err" };
        self.set_header(request, STATE, state);
        self.set_header(request, ERROR, failure.to_string());
        if self.mode == Mode::Monitor {
            error_log::log(
                Level::Warn,
                format_args!("chaitin-waf monitor mode: detected waf error - {failure}"),
            );
            return Ok(());
        }
        error_log::log(Level::Error, format_args!("chaitin-waf: {failure}"));
        Err(Box::new(Reply::page(500)))
    }

    fn decide(&self, request: &mut Request, said: Said) -> Verdict {
        self.set_header(request, STATE, "yes");
        if self.mode == Mode::Block {
            for (name, value) in &said.headers {
                request.early_headers.add(name, value);
            }
        }
        if !said.is_blocked {
            self.set_header(request, STATUS, "200");
            self.set_header(request, ACTION, "pass");
            return Ok(());
        }
        self.set_header(request, STATUS, said.status.to_string());
        self.set_header(request, ACTION, "reject");
        let event = &said.event;
        if self.mode == Mode::Monitor {
            error_log::log(
                Level::Warn,
                format_args!("chaitin-waf monitor mode: request would have been rejected, event_id: {event}"),
            );
            return Ok(());
        }
        error_log::log(Level::Error, format_args!("request rejected by chaitin-waf, event_id: {event}"));
        let status = said.status;
        let body = format!(
            "{{\"code\": {status}, \"success\":false, \"message\": \"blocked by Chaitin SafeLine Web Application Firewall\", \
             \"event_id\": \"{event}\"}}\n"
        );
        Err(Box::new(Reply::bytes(status, body)))
    }
}

/// Bodies that are read for it. Larger ones are refused with 413.
const MOST_COLLECTED: usize = 64 << 20;
