//! A call: the runner gets a configuration's token and the request, may ask back, and says what is to be done.

use std::{
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Reply, Request};
use tidegate_telemetry::error_log::{self, Level};

use super::{
    connection::{Broken, Connection},
    frame::{Frame, HEAD, MOST_BYTES},
    messages::{self, Fault, Info, kind},
    runner_time::RunnerTime,
    table::Malformed,
};
use crate::common::conf::typed;

/// A runner forgets a configuration after this time.
pub(super) const CONF_SECONDS: u64 = 3600;
/// A little less: no request meets one that was just forgotten.
const TOKEN_LIFETIME: Duration = Duration::from_secs(CONF_SECONDS / 10 * 9);
/// With a configuration that the runner has lost.
const TRIES: usize = 3;
/// Questions that a runner may ask back in one call.
const MOST_QUESTIONS: usize = 1000;

/// Tokens of another number are not used any more: the runner that gave them has gone.
static RUN: AtomicU64 = AtomicU64::new(0);

/// All tokens count for nothing from now on.
pub(super) fn forget_tokens() {
    RUN.fetch_add(1, Release);
}

/// Numbers requests, for the runner's log.
pub(super) fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// Numbers configurations, for their share of the calls.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

#[derive(Deserialize)]
struct Conf {
    #[serde(default)]
    conf: Vec<Named>,
    allow_degradation: bool,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    value: String,
}

/// A configuration of one of the three plugins.
pub(crate) struct Hook {
    conf: Vec<(String, String)>,
    allow_degradation: bool,
    /// Of this configuration in this process.
    number: u64,
    key: String,
    token: Mutex<Option<(u32, u64, Instant)>>,
}

/// Why a call has no result.
pub(super) enum Failure {
    /// Ask once more, over another connection.
    Stale,
    /// The configuration has to be sent again.
    UnknownToken,
    Failed(String),
    /// The client is to blame, and gets this.
    Refused(Box<Reply>),
}

impl From<Malformed> for Failure {
    fn from(Malformed: Malformed) -> Failure {
        Failure::Failed("the plugin runner sent a malformed message".to_owned())
    }
}

/// What a call is about.
pub(super) trait Subject {
    /// [`kind::HTTP_REQ_CALL`] or [`kind::HTTP_RESP_CALL`].
    const KIND: u8;

    fn question(&self, request: &Request, token: u32) -> Result<Frame, Failure>;

    /// Of the upstream's response, where there is one.
    fn response_body(&self) -> Option<&Bytes>;
}

/// A message that is longer than its length can say.
pub(super) fn too_long(length: usize) -> Failure {
    Failure::Failed(format!("the max length of data is {MOST_BYTES} but got {length}"))
}

impl Hook {
    pub(super) fn new(plugin: &str, conf: &Value, context: &BuildContext) -> Result<Hook, String> {
        let Conf { conf, allow_degradation } = typed(conf)?;
        let conf: Vec<(String, String)> =
            conf.into_iter().map(|Named { name, value }| (name, value)).collect();
        let owner = context.owner;
        // The runner outlives this process where it was started by hand, and versions may begin again.
        let content = format!("{conf:?}");
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content.as_bytes());
        let mark: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let key = format!("{}#{}#{plugin}#{}-{mark}", owner.kind.noun(), owner.id, owner.version);
        Ok(Hook { conf, allow_degradation, number: next_number(), key, token: Mutex::default() })
    }

    /// What the runner says; `None`: the request goes on without it.
    pub(super) async fn ask<S: Subject>(
        &self,
        request: &mut Request,
        subject: &S,
    ) -> Result<Option<Vec<u8>>, Box<Reply>> {
        let time = RunnerTime::new();
        let (mut fresh, mut tries) = (false, 0);
        let reason = loop {
            match self.attempt(request, subject, fresh, &time).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(Failure::Stale) => fresh = true,
                Err(Failure::UnknownToken) => {
                    tries += 1;
                    if tries == TRIES {
                        break format!("conf token not found, after {TRIES} times retry");
                    }
                    log(Level::Warn, "refresh cache and try again");
                    forget_tokens();
                }
                Err(Failure::Failed(reason)) => break reason,
                Err(Failure::Refused(reply)) => return Err(reply),
            }
        };
        self.unanswered(&reason).map(|()| None)
    }

    /// 503, unless the route may do without the runner.
    pub(super) fn unanswered(&self, reason: &str) -> Result<(), Box<Reply>> {
        log(Level::Error, reason);
        if self.allow_degradation {
            log(Level::Warn, "Plugin Runner is wrong, allow degradation");
            return Ok(());
        }
        Err(Box::new(Reply::page(503)))
    }

    async fn attempt<S: Subject>(
        &self,
        request: &mut Request,
        subject: &S,
        fresh: bool,
        time: &RunnerTime,
    ) -> Result<Vec<u8>, Failure> {
        let opened = Connection::open(self.number, fresh, time).await;
        let mut connection = opened.map_err(Failure::Failed)?;
        let token = self.token(&mut connection).await?;
        send(&mut connection, S::KIND, &subject.question(request, token)?).await?;
        for _ in 0..MOST_QUESTIONS {
            let (kind, data) = receive(&mut connection, S::KIND).await?;
            if kind == S::KIND {
                connection.keep();
                return Ok(data);
            }
            if kind != kind::EXTRA_INFO {
                let name = kind::name(S::KIND);
                return Err(Failure::Failed(format!("failed to receive {name}: unexpected type {kind}")));
            }
            let answer = answer(request, subject, &data).await?;
            send(&mut connection, kind::EXTRA_INFO, &answer).await?;
        }
        Err(Failure::Failed(format!("the plugin runner asked more than {MOST_QUESTIONS} questions")))
    }

    /// Names the configuration to the runner, which gets it once.
    async fn token(&self, connection: &mut Connection<'_>) -> Result<u32, Failure> {
        let run = RUN.load(Acquire);
        let known = *self.token.lock();
        if let Some((token, of, since)) = known
            && of == run
            && since.elapsed() < TOKEN_LIFETIME
        {
            return Ok(token);
        }
        let question = messages::prepare_conf(&self.key, &self.conf).map_err(too_long)?;
        send(connection, kind::PREPARE_CONF, &question).await?;
        let (kind, data) = receive(connection, kind::PREPARE_CONF).await?;
        if kind != kind::PREPARE_CONF {
            return Err(Failure::Failed(format!(
                "failed to receive RPC_PREPARE_CONF: unexpected type {kind}"
            )));
        }
        let token = messages::token(&data)?;
        *self.token.lock() = Some((token, run, Instant::now()));
        Ok(token)
    }
}

fn log(level: Level, what: &str) {
    error_log::log(level, format_args!("ext-plugin: {what}"));
}

async fn send(connection: &mut Connection<'_>, kind: u8, frame: &Frame) -> Result<(), Failure> {
    connection.send(frame).await.map_err(|broken| match broken {
        Broken::Stale => Failure::Stale,
        Broken::Failed(reason) => Failure::Failed(format!("failed to send {}: {reason}", kind::name(kind))),
    })
}

/// An answer to a question of a kind, or a question of the runner's.
async fn receive(connection: &mut Connection<'_>, asked: u8) -> Result<(u8, Vec<u8>), Failure> {
    let failed = |reason: &str| Failure::Failed(format!("failed to receive {}: {reason}", kind::name(asked)));
    let received = connection.receive().await.map_err(|broken| match broken {
        Broken::Stale => Failure::Stale,
        Broken::Failed(reason) => failed(&reason),
    })?;
    if received.0 != kind::ERROR {
        return Ok(received);
    }
    Err(match messages::fault(&received.1)? {
        Fault::UnknownToken => Failure::UnknownToken,
        Fault::Said(reason) => failed(&reason),
    })
}

/// To a question about the request.
async fn answer<S: Subject>(request: &mut Request, subject: &S, data: &[u8]) -> Result<Frame, Failure> {
    let body;
    let value;
    let result = match messages::info(data)? {
        Info::Variable(name) => {
            value = std::str::from_utf8(name).ok().and_then(|name| request.variable_by_name(name));
            value.as_deref()
        }
        Info::RequestBody => {
            let most = MOST_BYTES - 16 * HEAD;
            body = request.collect_body(most).await.map_err(Failure::Refused)?;
            Some(body.as_ref()).filter(|body| !body.is_empty())
        }
        Info::ResponseBody => match subject.response_body() {
            Some(body) => Some(body.as_ref()),
            None => {
                log(Level::Error, "failed to read response body: not exits");
                None
            }
        },
        Info::Unknown(kind) => {
            let reason = format!("failed to handle RPC_EXTRA_INFO: unsupported info type: {kind}");
            return Err(Failure::Failed(reason));
        }
    };
    messages::info_answer(result).map_err(too_long)
}
