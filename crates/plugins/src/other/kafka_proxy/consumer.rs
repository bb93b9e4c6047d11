//! Asks the leaders of partitions, whom it finds by the topics' metadata.

use bytes::Bytes;
use tidegate_plugin_api::answers::BoundedBody;
use tidegate_telemetry::error_log::Level;
use tokio::time::Duration;

use super::{records, said::log_some, wire};
use crate::{
    common::kept_connections::KeptConnections,
    observability::kafka_logger::{
        connection::{Connection, Settings},
        metadata::{Missing, Topic},
        protocol::{self, FETCH, LIST_OFFSETS, Reader, Writer},
    },
};

/// Of a topic, which brokers have too: longer names would be cut.
const MAX_TOPIC_BYTES: usize = 249;
/// Topics that one session remembers.
const MAX_TOPICS: usize = 16;
/// After that a topic is looked up again, as in APISIX.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// A broker waits so long for a message.
const MAX_WAIT_MS: i32 = 100;
/// What a broker sends of a partition at once. The first batch comes whole, however long it is.
const FETCH_BYTES: i32 = 1 << 20;
/// Of a fetch's answer, for a client.
const MAX_ANSWER_BYTES: usize = 17 << 20;
/// Of the transactions of a partition's answer that were aborted.
const MOST_ABORTED: usize = 65_536;

pub(super) struct Consumer {
    settings: Settings,
    /// The one that was read last comes last.
    topics: Vec<(String, Topic)>,
    connections: KeptConnections<i32, Connection>,
}

/// What a leader said: a value, or an error of the protocol.
type Said<T> = Result<Result<T, i16>, String>;

impl Consumer {
    pub(super) fn new(settings: Settings) -> Consumer {
        Consumer { settings, topics: Vec::new(), connections: KeptConnections::default() }
    }

    /// The offset of the first message at or after a time; -1: of the next message, -2: of the first one.
    pub(super) async fn list_offset(
        &mut self,
        topic: &str,
        partition: i32,
        time: i64,
    ) -> Result<i64, String> {
        let fill = |request: &mut Writer| {
            request.i32(-1);
            request.i32(1);
            request.string(topic);
            request.i32(1);
            request.i32(partition);
            request.i64(time);
        };
        self.ask(topic, partition, LIST_OFFSETS, &fill, |answer| {
            of_partition(&mut Reader(&answer), |reader| {
                let code = reader.i16()?;
                // The time of the message.
                reader.skip(8)?;
                let offset = reader.i64()?;
                Ok(if code == 0 { Ok(offset) } else { Err(code) })
            })
        })
        .await
    }

    /// The messages from an offset on, as the end of an answer. `head`: makes its beginning, of the length of the end.
    pub(super) async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        head: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Bytes, String> {
        let fill = |request: &mut Writer| {
            request.i32(-1);
            request.i32(MAX_WAIT_MS);
            request.i32(1);
            request.i32(FETCH_BYTES);
            // Uncommitted messages, too.
            request.i8(0);
            request.i32(1);
            request.string(topic);
            request.i32(1);
            request.i32(partition);
            request.i64(offset);
            request.i32(FETCH_BYTES);
        };
        let records = self.ask(topic, partition, FETCH, &fill, |answer| {
            let mut reader = Reader(&answer);
            // The time to be throttled.
            reader.skip(4)?;
            of_partition(&mut reader, |reader| {
                let code = reader.i16()?;
                // How far the partition reaches.
                reader.skip(16)?;
                reader.list(MOST_ABORTED, |reader| reader.skip(16))?;
                let records = reader.bytes()?;
                Ok(if code == 0 { Ok(answer.slice_ref(records)) } else { Err(code) })
            })
        });
        let records = records.await?;
        let mut buffer = Vec::new();
        let mut length = 0;
        records::each(&records, offset, &mut |record| {
            buffer.clear();
            wire::write_record(&mut buffer, &record);
            length += buffer.len();
            Ok(())
        })?;
        let head = head(length);
        let mut answer = BoundedBody::new(&self.service(), self.settings.client, MAX_ANSWER_BYTES);
        answer.expect((head.len() + length) as u64);
        let refused = |reason| format!("response: {reason}");
        answer.push(&head).map_err(refused)?;
        records::each(&records, offset, &mut |record| {
            buffer.clear();
            wire::write_record(&mut buffer, &record);
            answer.push(&buffer).map_err(refused)
        })?;
        Ok(answer.into_bytes())
    }

    /// Whose part of the memory for answers counts.
    fn service(&self) -> String {
        self.settings
            .brokers
            .first()
            .map_or_else(String::new, |broker| format!("{}:{}", broker.host, broker.port))
    }

    /// Asks the leader of a partition. What is remembered may be old: it is forgotten after a failure, and the leader is asked
    /// once more.
    async fn ask<T>(
        &mut self,
        topic: &str,
        partition: i32,
        api: (i16, i16),
        fill: &(dyn Fn(&mut Writer) + Sync),
        read: impl Fn(Bytes) -> Said<T>,
    ) -> Result<T, String> {
        let mut is_last = false;
        loop {
            let (leader, host, port, is_known) = self.leader(topic, partition).await?;
            let kept = self.connections.get(&leader).is_some();
            let said = self.ask_broker((leader, &host, port), api, fill).await.and_then(&read);
            is_last |= !is_known && !kept;
            let reason = match said {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(code)) if is_last || !is_stale(code) => return Err(in_words(code)),
                Ok(Err(code)) => in_words(code),
                Err(reason) => {
                    self.connections.retain(|broker| *broker != leader);
                    reason
                }
            };
            self.topics.retain(|(name, _)| name != topic);
            if is_last {
                return Err(reason);
            }
            is_last = true;
        }
    }

    async fn ask_broker(
        &mut self,
        (leader, host, port): (i32, &str, u16),
        api: (i16, i16),
        fill: &(dyn Fn(&mut Writer) + Sync),
    ) -> Result<Bytes, String> {
        let connection = match self.connections.get(&leader) {
            Some(known) => known,
            None => {
                let opened = Connection::open(&self.settings, &self.settings.broker(host, port)).await?;
                self.connections.keep(leader, opened)
            }
        };
        connection.ask(api, fill).await
    }

    /// The leader's number and place, and whether it was remembered.
    async fn leader(&mut self, name: &str, partition: i32) -> Result<(i32, String, u16, bool), String> {
        if name.is_empty() || name.len() > MAX_TOPIC_BYTES {
            return Err("not found topic".to_owned());
        }
        self.topics.retain(|(_, topic)| topic.read_at.elapsed() < REFRESH);
        let is_known = self.topics.iter().any(|(known, _)| known == name);
        if !is_known {
            let topic = Topic::read(&self.settings, name, false).await.map_err(|missing| {
                if let Missing::Unreachable(reason) = missing {
                    log_some(Level::Error, &format!("all brokers failed in fetch topic metadata: {reason}"));
                }
                "not found topic".to_owned()
            })?;
            if self.topics.len() >= MAX_TOPICS {
                self.topics.remove(0);
            }
            self.topics.push((name.to_owned(), topic));
        }
        let topic = self.topics.iter().find(|(known, _)| known == name).map(|(_, topic)| topic);
        let topic = topic.filter(|topic| !topic.partitions.is_empty()).ok_or("not found topic")?;
        let found = topic.partitions.iter().find(|(number, _)| *number == partition);
        let &(_, leader) = found.ok_or("not found partition")?;
        let broker = topic.brokers.iter().find(|(id, ..)| *id == leader);
        let (_, host, port) = broker.ok_or("not found broker")?;
        Ok((leader, host.clone(), *port, is_known))
    }
}

/// Whether the leader may have moved.
fn is_stale(code: i16) -> bool {
    matches!(code, 3 | 5 | 6 | 9 | 74 | 75)
}

fn in_words(code: i16) -> String {
    protocol::name(code).map_or_else(|| protocol::error(code), str::to_owned)
}

/// What an answer says of the one partition that it was asked for.
fn of_partition<T>(reader: &mut Reader<'_>, read: impl Fn(&mut Reader<'_>) -> Said<T>) -> Said<T> {
    let topics = reader.list(1, |reader| {
        reader.string()?;
        reader.list(1, |reader| {
            reader.skip(4)?;
            read(reader)
        })
    })?;
    topics.into_iter().flatten().next().ok_or_else(|| "the response has no partition".to_owned())
}
