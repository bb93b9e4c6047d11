//! Sends messages to one topic: finds the leader of a partition, keeps connections, tries again when leaders move.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_model::random::random_u64;
use tokio::sync::Mutex;

use super::{
    connection::{Connection, Settings},
    metadata::Topic,
    protocol::{self, PRODUCE, Reader, Writer},
};
use crate::common::kept_connections::KeptConnections;

/// Tries per message before the batch counts as failed.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Producer {
    settings: Settings,
    topic: String,
    key: Option<String>,
    acks: i16,
    refresh: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    topic: Option<Topic>,
    connections: KeptConnections<i32, Connection>,
    /// Messages without a key go around the partitions.
    next: u32,
}

impl Producer {
    pub(crate) fn new(
        settings: Settings,
        topic: String,
        key: Option<String>,
        acks: i16,
        refresh: Duration,
    ) -> Producer {
        let state = State { next: random_u64() as u32, ..State::default() };
        Producer { settings, topic, key, acks, refresh, state: Mutex::new(state) }
    }

    pub(crate) async fn send(&self, message: &[u8]) -> Result<(), String> {
        let mut state = self.state.lock().await;
        let mut last = String::new();
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            match self.try_send(&mut state, message).await {
                Ok(()) => return Ok(()),
                Err(reason) => last = reason,
            }
            // Whatever failed, brokers and leaders are looked up again.
            state.topic = None;
            state.connections.clear();
        }
        Err(format!("failed to send data to Kafka topic: {last}, brokers: {}", self.broker_names()))
    }

    fn broker_names(&self) -> String {
        let brokers = self.settings.brokers.iter();
        brokers.map(|broker| format!("{}:{}", broker.host, broker.port)).collect::<Vec<_>>().join(", ")
    }

    async fn try_send(&self, state: &mut State, message: &[u8]) -> Result<(), String> {
        if state.topic.as_ref().is_none_or(|topic| topic.read_at.elapsed() >= self.refresh) {
            let topic = Topic::read(&self.settings, &self.topic, true).await;
            let topic = topic.map_err(|missing| missing.to_string())?;
            state.connections.retain(|leader| topic.brokers.iter().any(|(id, ..)| id == leader));
            state.topic = Some(topic);
        }
        let turn = match &self.key {
            Some(key) => protocol::key_hash(key.as_bytes()),
            None => {
                state.next = state.next.wrapping_add(1);
                state.next
            }
        };
        let topic = state.topic.as_ref().ok_or("no metadata")?;
        let at = turn as usize % topic.partitions.len().max(1);
        let &(partition, leader) =
            topic.partitions.get(at).ok_or("the topic has no partition with a leader")?;
        let connection = match state.connections.get(&leader) {
            Some(known) => known,
            None => {
                let broker = topic.brokers.iter().find(|(id, ..)| *id == leader);
                let (_, host, port) = broker.ok_or("the leader of the partition is unknown")?;
                let opened = Connection::open(&self.settings, &self.settings.broker(host, *port)).await?;
                state.connections.keep(leader, opened)
            }
        };
        self.produce(connection, partition, message).await
    }

    async fn produce(
        &self,
        connection: &mut Connection,
        partition: i32,
        message: &[u8],
    ) -> Result<(), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let batch = protocol::record_batch(self.key.as_deref().map(str::as_bytes), message, now);
        let timeout_ms = self.settings.timeout.as_millis().min(i32::MAX as u128) as i32;
        let fill = |request: &mut Writer| {
            // No transaction.
            request.i16(-1);
            request.i16(self.acks);
            request.i32(timeout_ms);
            request.i32(1);
            request.string(&self.topic);
            request.i32(1);
            request.i32(partition);
            request.bytes(&batch);
        };
        if self.acks == 0 {
            return connection.send_one_way(PRODUCE, fill).await;
        }
        let answer = connection.ask(PRODUCE, fill).await?;
        let codes = Reader(&answer).list(1, |reader| {
            reader.string()?;
            reader.list(1, |reader| {
                reader.skip(4)?;
                let code = reader.i16()?;
                reader.skip(16)?;
                Ok(code)
            })
        })?;
        match codes.into_iter().flatten().find(|code| *code != 0) {
            Some(code) => Err(protocol::error(code)),
            None => Ok(()),
        }
    }
}
