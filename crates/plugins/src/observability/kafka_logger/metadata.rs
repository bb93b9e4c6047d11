//! Where the partitions of a topic are.

use std::fmt;

use tokio::time::Instant;

use super::{
    connection::{Connection, Settings},
    protocol::{self, METADATA, Reader},
};

/// Of a cluster.
const MOST_BROKERS: usize = 4096;
/// Of a topic.
const MOST_PARTITIONS: usize = 65_536;

pub(crate) struct Topic {
    /// Number and leader; those without a leader are left out.
    pub partitions: Vec<(i32, i32)>,
    pub brokers: Vec<(i32, String, u16)>,
    pub read_at: Instant,
}

/// Why a topic was not found.
pub(crate) enum Missing {
    /// No broker says where it is.
    Unreachable(String),
    /// The broker's error.
    Refused(i16),
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Missing::Unreachable(reason) => out.write_str(reason),
            Missing::Refused(code) => out.write_str(&protocol::error(*code)),
        }
    }
}

impl Topic {
    /// Asks the configured brokers one after the other. `creates`: brokers may create a topic that they do not have.
    pub(crate) async fn read(settings: &Settings, name: &str, creates: bool) -> Result<Topic, Missing> {
        let mut last = "no broker is configured".to_owned();
        for broker in &settings.brokers {
            let asked = async {
                let mut connection = Connection::open(settings, broker).await?;
                let answer = connection
                    .ask(METADATA, |request| {
                        request.i32(1);
                        request.string(name);
                        request.i8(creates.into());
                    })
                    .await?;
                parse(&answer)
            };
            match asked.await {
                Ok((0, topic)) => return Ok(topic),
                Ok((code, _)) => return Err(Missing::Refused(code)),
                Err(reason) => last = reason,
            }
        }
        Err(Missing::Unreachable(last))
    }
}

fn parse(answer: &[u8]) -> Result<(i16, Topic), String> {
    let mut reader = Reader(answer);
    // The time to be throttled.
    reader.skip(4)?;
    let brokers = reader.list(MOST_BROKERS, |reader| {
        let id = reader.i32()?;
        let host = reader.string()?.unwrap_or_default();
        let port = u16::try_from(reader.i32()?).map_err(|_| "port out of range")?;
        reader.string()?;
        Ok((id, host, port))
    })?;
    // The names of the cluster and of its controller.
    reader.string()?;
    reader.skip(4)?;
    let topics = reader.list(1, |reader| {
        let code = reader.i16()?;
        reader.string()?;
        reader.skip(1)?;
        let partitions = reader.list(MOST_PARTITIONS, |reader| {
            reader.skip(2)?;
            let (number, leader) = (reader.i32()?, reader.i32()?);
            for _ in 0..2 {
                reader.list(MOST_BROKERS, |reader| reader.skip(4))?;
            }
            Ok((number, leader))
        })?;
        Ok((code, partitions))
    })?;
    let (code, mut partitions) = topics.into_iter().next().ok_or("the broker does not know the topic")?;
    partitions.retain(|(_, leader)| *leader >= 0);
    partitions.sort_unstable();
    Ok((code, Topic { partitions, brokers, read_at: Instant::now() }))
}
