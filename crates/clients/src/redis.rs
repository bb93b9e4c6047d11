//! Redis for plugins: single server, cluster or sentinel, by the field names that APISIX's plugins share.
//!
//! Each worker keeps one connection per distinct setting and multiplexes its requests over it, so requests that meet
//! go out in one write. A connection idle for longer than `redis_keepalive_timeout` is reopened; one that breaks
//! is replaced, and the command repeated once. After a timeout, further commands fail at once
//! for a while, see [`circuit`].

mod circuit;
mod error;
mod sentinel;
mod settings;
mod tls;

use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use circuit::Circuit;
use error::breaks_connection;
use redis::{
    RedisError, ToRedisArgs,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster_async::ClusterConnection,
};
use rustc_hash::FxHashMap;
use serde_json::Value;
use settings::{Settings, Target};
use tokio::sync::Mutex;

pub use error::{Error, Failure};
pub(crate) use redis::FromRedisValue;
pub use redis::{Cmd, Script, cmd};

/// A client of a Redis server. Cheap to clone.
#[derive(Clone)]
pub struct RedisClient {
    settings: Arc<Settings>,
}

/// An argument of a script.
pub enum Argument<'a> {
    /// Sent as text.
    Number(f64),
    /// Sent as it is.
    Text(&'a [u8]),
}

impl ToRedisArgs for Argument<'_> {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        match self {
            Argument::Number(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                (*value as i64).write_redis_args(out);
            }
            Argument::Number(value) => out.write_arg_fmt(value),
            Argument::Text(text) => out.write_arg(text),
        }
    }
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection<tls::Node>),
}

/// The state of one worker for one setting.
#[derive(Default)]
struct WorkerSlot {
    circuit: Circuit,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    connection: Option<(Connection, u64)>,
    generation: u64,
    used: Option<Instant>,
    /// The last failure to connect: requests that waited meanwhile share it instead of trying one after the
    /// other.
    failed: Option<(Instant, Error)>,
}

thread_local! {
    static SLOTS: RefCell<FxHashMap<Arc<str>, Rc<WorkerSlot>>> = RefCell::default();
}

/// Settings that one worker keeps connections for.
const MAX_SLOTS: usize = 1024;

impl RedisClient {
    /// `None` when `policy` does not use Redis.
    pub fn from_conf(policy: &str, conf: &Value) -> Result<Option<RedisClient>, String> {
        let settings = match policy {
            "redis" => Settings::single(conf)?,
            "redis-cluster" => Settings::cluster(conf)?,
            "redis-sentinel" => Settings::sentinel(conf)?,
            _ => return Ok(None),
        };
        Ok(Some(RedisClient { settings: Arc::new(settings) }))
    }

    /// One server whose responses have a limit of their own, and perhaps a certificate for another name than its host.
    pub fn single(
        conf: &Value,
        server_name: Option<&str>,
        response_timeout: Duration,
    ) -> Result<RedisClient, String> {
        let settings = Settings::single(conf)?.with(server_name, response_timeout)?;
        Ok(RedisClient { settings: Arc::new(settings) })
    }

    /// Runs a script on one key, atomically on the server.
    pub async fn eval<T: FromRedisValue>(
        &self,
        script: &Script,
        key: &[u8],
        arguments: &[Argument<'_>],
    ) -> Result<T, Failure> {
        let mut invocation = script.prepare_invoke();
        invocation.key(key);
        for argument in arguments {
            invocation.arg(argument);
        }
        let place = self.place();
        let attempt = place.circuit.enter().map_err(|error| self.failure(error))?;
        let result = self.try_eval(&place.slot, &invocation).await;
        attempt.ended(&result);
        result.map_err(|error| self.failure(error))
    }

    async fn try_eval<T: FromRedisValue>(
        &self,
        slot: &Mutex<Slot>,
        invocation: &redis::ScriptInvocation<'_>,
    ) -> Result<T, Error> {
        let (mut connection, generation) = self.connection(slot).await?;
        let error = match connection.invoke(invocation).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.give_up_on(slot, generation, error).await?;
        let (mut connection, _) = self.connection(slot).await?;
        Ok(connection.invoke(invocation).await?)
    }

    /// Runs a plain command.
    pub async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failure> {
        let place = self.place();
        let attempt = place.circuit.enter().map_err(|error| self.failure(error))?;
        let result = self.try_command(&place.slot, command).await;
        attempt.ended(&result);
        result.map_err(|error| self.failure(error))
    }

    async fn try_command<T: FromRedisValue>(&self, slot: &Mutex<Slot>, command: &Cmd) -> Result<T, Error> {
        let (mut connection, generation) = self.connection(slot).await?;
        let error = match connection.query(command).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.give_up_on(slot, generation, error).await?;
        let (mut connection, _) = self.connection(slot).await?;
        Ok(connection.query(command).await?)
    }

    /// After a failure: `Ok` when another connection is worth a try.
    async fn give_up_on(&self, slot: &Mutex<Slot>, generation: u64, error: RedisError) -> Result<(), Error> {
        if !breaks_connection(&error) {
            return Err(Error::Refused(error.to_string()));
        }
        forget(slot, generation).await;
        if error.is_timeout() { Err(Error::TimedOut) } else { Ok(()) }
    }

    fn failure(&self, error: Error) -> Failure {
        Failure { server: self.settings.target.to_string(), error }
    }

    fn place(&self) -> Rc<WorkerSlot> {
        SLOTS.with_borrow_mut(|slots| {
            if let Some(place) = slots.get(&self.settings.name) {
                return place.clone();
            }
            if slots.len() >= MAX_SLOTS {
                slots.clear();
            }
            slots.entry(self.settings.name.clone()).or_default().clone()
        })
    }

    async fn connection(&self, slot: &Mutex<Slot>) -> Result<(Connection, u64), Error> {
        let asked = Instant::now();
        let mut slot = slot.lock().await;
        if slot.used.is_some_and(|used| used + self.settings.keepalive < asked) {
            slot.connection = None;
        }
        if let Some((connection, generation)) = &slot.connection {
            let found = (connection.clone(), *generation);
            slot.used = Some(asked);
            return Ok(found);
        }
        if let Some((at, error)) = &slot.failed
            && *at >= asked
        {
            return Err(error.clone());
        }
        match self.connect().await {
            Ok(connection) => {
                slot.generation += 1;
                let generation = slot.generation;
                slot.connection = Some((connection.clone(), generation));
                slot.used = Some(Instant::now());
                slot.failed = None;
                Ok((connection, generation))
            }
            Err(error) => {
                slot.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        // Name look-up, handshake and AUTH count too.
        let limit = self.settings.connect_timeout.saturating_add(self.settings.response_timeout);
        match tokio::time::timeout(limit, self.open()).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(Error::TimedOut),
        }
    }

    async fn open(&self) -> Result<Connection, RedisError> {
        let settings = &self.settings;
        let one = || {
            redis::AsyncConnectionConfig::new()
                .set_connection_timeout(Some(settings.connect_timeout))
                .set_response_timeout(Some(settings.response_timeout))
        };
        match &settings.target {
            Target::Single(info) => {
                let name = settings.server_name.clone();
                Ok(Connection::One(tls::connect(info.clone(), name, one()).await?))
            }
            Target::Cluster(client, _) => {
                Ok(Connection::Cluster(client.get_async_generic_connection().await?))
            }
            Target::Sentinel(sentinel) => Ok(Connection::One(sentinel.connect(&one()).await?)),
        }
    }
}

async fn forget(slot: &Mutex<Slot>, generation: u64) {
    let mut slot = slot.lock().await;
    if slot.connection.as_ref().is_some_and(|(_, found)| *found == generation) {
        slot.connection = None;
    }
}

impl Connection {
    async fn invoke<T: FromRedisValue>(
        &mut self,
        invocation: &redis::ScriptInvocation<'_>,
    ) -> Result<T, RedisError> {
        match self {
            Connection::One(connection) => invocation.invoke_async(connection).await,
            Connection::Cluster(connection) => invocation.invoke_async(connection).await,
        }
    }

    async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, RedisError> {
        async fn run<T: FromRedisValue>(
            command: &Cmd,
            connection: &mut impl ConnectionLike,
        ) -> Result<T, RedisError> {
            command.query_async(connection).await
        }
        match self {
            Connection::One(connection) => run(command, connection).await,
            Connection::Cluster(connection) => run(command, connection).await,
        }
    }
}
