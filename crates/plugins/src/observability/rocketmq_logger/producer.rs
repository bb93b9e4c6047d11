//! Sends messages to one topic: asks name servers where it is, keeps connections, goes around its queues.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_model::random::{random_below, random_u64};
use tokio::{sync::Mutex, time::Instant};

use super::{
    connection::{Connection, Settings},
    remoting::{Command, Fields, ROUTE_OF_TOPIC, RemotingResponse, SEND_MESSAGE, SUCCESS, TOPIC_NOT_EXIST},
    route::{Queue, Queues},
};
use crate::common::kept_connections::KeptConnections;

/// Tries per message before the batch counts as failed.
const TRIES: usize = 3;

/// How long queues are believed in.
const REFRESH: Duration = Duration::from_secs(30);

/// The name that APISIX's producer has.
const GROUP: &str = "apisixLogProducer";

/// Brokers that make topics when they are first written to tell where under this name.
const DEFAULT_TOPIC: &str = "TBW102";
const DEFAULT_QUEUES: u32 = 4;

/// The message is there, although not yet on the disk, or on replicas.
const STORED: [i32; 4] = [SUCCESS, 10, 11, 12];

pub(super) struct Destination {
    pub topic: String,
    pub key: Option<String>,
    pub tag: Option<String>,
}

pub(super) struct Producer {
    settings: Settings,
    destination: Destination,
    state: Mutex<State>,
}

struct State {
    queues: Queues,
    read_at: Option<Instant>,
    /// By the address of the broker.
    connections: KeptConnections<String, Connection>,
    next: usize,
}

impl Producer {
    pub(super) fn new(settings: Settings, destination: Destination) -> Producer {
        let next = random_below(usize::from(u16::MAX));
        let state =
            State { queues: Queues::default(), read_at: None, connections: KeptConnections::default(), next };
        Producer { settings, destination, state: Mutex::new(state) }
    }

    pub(super) async fn send(&self, message: &[u8]) -> Result<(), String> {
        let mut state = self.state.lock().await;
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.try_send(&mut state, message).await {
                Ok(()) => return Ok(()),
                Err(reason) => last = reason,
            }
            // Whatever failed, the queues are asked for again, and the next one is tried.
            state.read_at = None;
            state.connections.clear();
        }
        let servers = self.settings.nameservers.join(", ");
        Err(format!("failed to send data to rocketmq topic: {last}, nameserver_list: {servers}"))
    }

    async fn try_send(&self, state: &mut State, message: &[u8]) -> Result<(), String> {
        if state.read_at.is_none_or(|at| at.elapsed() >= REFRESH) {
            let queues = self.queues().await?;
            state.connections.retain(|broker| queues.has(broker));
            state.queues = queues;
            state.read_at = Some(Instant::now());
        }
        state.next = state.next.wrapping_add(1);
        let queue = state.queues.at(state.next).ok_or("the topic has no queue that may be written")?;
        let connection = match state.connections.get(&queue.broker) {
            Some(known) => known,
            None => {
                let opened = Connection::open(&self.settings, &queue.broker).await?;
                state.connections.keep(queue.broker.clone(), opened)
            }
        };
        let command = Command { code: SEND_MESSAGE, fields: self.fields(&queue), body: message };
        let answer = connection.ask(&self.settings, command).await?;
        match STORED.contains(&answer.code) {
            true => Ok(()),
            false => Err(format!("broker {}: {}", queue.broker, answer.refusal())),
        }
    }

    /// Those of `SendMessageRequestHeaderV2`.
    fn fields(&self, queue: &Queue) -> Fields {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Fields::from([
            ("a", GROUP.to_owned()),
            ("b", self.destination.topic.clone()),
            ("c", DEFAULT_TOPIC.to_owned()),
            ("d", DEFAULT_QUEUES.to_string()),
            ("e", queue.id.to_string()),
            ("f", "0".to_owned()),
            ("g", now.to_string()),
            ("h", "0".to_owned()),
            ("i", self.properties()),
            ("j", "0".to_owned()),
            ("k", "false".to_owned()),
            ("m", "false".to_owned()),
        ])
    }

    /// Names and values are parted by one control character, properties by another.
    fn properties(&self) -> String {
        let Destination { key, tag, .. } = &self.destination;
        let id = format!("{:016X}{:016X}", random_u64(), random_u64());
        let properties = [
            ("KEYS", key.as_deref()),
            ("TAGS", tag.as_deref()),
            ("UNIQ_KEY", Some(id.as_str())),
            ("WAIT", Some("true")),
        ];
        let present = properties.into_iter().filter_map(|(name, value)| Some((name, value?)));
        present.map(|(name, value)| format!("{name}\u{1}{value}")).collect::<Vec<_>>().join("\u{2}")
    }

    /// Asks the name servers one after the other, beginning with any.
    async fn queues(&self) -> Result<Queues, String> {
        let servers = &self.settings.nameservers;
        let first = random_below(servers.len());
        let mut last = "no name server is configured".to_owned();
        for server in servers.iter().cycle().skip(first).take(servers.len()) {
            match self.queues_from(server).await {
                Ok(queues) => return Ok(queues),
                Err(reason) => last = reason,
            }
        }
        Err(last)
    }

    async fn queues_from(&self, server: &str) -> Result<Queues, String> {
        let mut connection = Connection::open(&self.settings, server).await?;
        let answer = self.route(&mut connection, &self.destination.topic).await?;
        let (answer, per_broker) = match answer.code {
            TOPIC_NOT_EXIST => (self.route(&mut connection, DEFAULT_TOPIC).await?, DEFAULT_QUEUES),
            _ => (answer, u32::MAX),
        };
        match answer.code {
            SUCCESS => Queues::read(&answer.body, per_broker),
            _ => Err(format!("name server {server}: {}", answer.refusal())),
        }
    }

    async fn route(&self, connection: &mut Connection, topic: &str) -> Result<RemotingResponse, String> {
        let fields = Fields::from([("topic", topic.to_owned())]);
        connection.ask(&self.settings, Command { code: ROUTE_OF_TOPIC, fields, body: b"" }).await
    }
}
