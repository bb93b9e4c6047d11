//! Where a topic is: which brokers have queues of it that may be written.
//!
//! A name server says how many queues a broker has, and nothing is made of each: an answer of 4 MB would name billions.

use std::collections::HashMap;

use serde::Deserialize;
use tidegate_model::json;

/// A queue that messages are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    /// Address of the broker.
    pub broker: String,
    pub id: u32,
}

/// The queues of a topic.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Queues {
    /// Address and number of queues; those with few come first.
    brokers: Vec<(String, u32)>,
    total: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Route {
    #[serde(default)]
    queue_datas: Vec<Written>,
    #[serde(default)]
    broker_datas: Vec<Broker>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    broker_name: String,
    write_queue_nums: u32,
    perm: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Broker {
    broker_name: String,
    broker_addrs: Addresses,
}

#[derive(Deserialize)]
struct Addresses {
    #[serde(rename = "0")]
    master: Option<String>,
}

const MAY_BE_WRITTEN: u32 = 2;
/// Of one topic.
const MOST_BROKERS: usize = 1024;
/// Of one broker; further ones get no messages.
const MOST_QUEUES: u32 = 4096;
/// A name, or an address: a host has 253 bytes at most.
const LONGEST_TEXT: usize = 512;
/// Values in an answer: sixteen for a broker, a few slaves included.
const MAX_VALUES: usize = 65_536;

impl Queues {
    /// What a name server says, `per_broker` queues of each at most.
    pub(super) fn read(said: &[u8], per_broker: u32) -> Result<Queues, String> {
        if json::most_values(said) > MAX_VALUES {
            return Err(format!("route of the topic: it has more than {MAX_VALUES} values"));
        }
        let text = with_quoted_keys(&String::from_utf8_lossy(said));
        let route: Route =
            serde_json::from_str(&text).map_err(|error| format!("route of the topic: {error}"))?;
        let fits = |text: &str| text.len() <= LONGEST_TEXT;
        let mut masters: HashMap<String, String> = HashMap::new();
        for broker in route.broker_datas {
            if let Some(address) = broker.broker_addrs.master.filter(|address| fits(address))
                && fits(&broker.broker_name)
            {
                // The first one of a name counts.
                masters.entry(broker.broker_name).or_insert(address);
            }
        }
        let mut brokers: Vec<(String, u32)> = Vec::new();
        for of in route.queue_datas.iter().filter(|of| of.perm & MAY_BE_WRITTEN != 0) {
            let count = of.write_queue_nums.min(per_broker).min(MOST_QUEUES);
            // A broker that is named twice has its queues once.
            if let Some(address) = masters.remove(&of.broker_name)
                && count > 0
            {
                brokers.push((address, count));
            }
        }
        if brokers.len() > MOST_BROKERS {
            return Err(format!("route of the topic: it has more than {MOST_BROKERS} brokers"));
        }
        brokers.sort_by(|(a, few), (b, many)| (few, a).cmp(&(many, b)));
        let total = brokers.iter().map(|(_, count)| u64::from(*count)).sum();
        Ok(Queues { brokers, total })
    }

    /// The queue whose turn it is: by turns of brokers, so that the next queue after one that fails is another broker's, and each
    /// as often as any other.
    pub(super) fn at(&self, turn: usize) -> Option<Queue> {
        let mut turn = (turn as u64).checked_rem(self.total)?;
        let mut passed = 0;
        for (at, (_, count)) in self.brokers.iter().enumerate() {
            // From here on all have the queues up to the last one of this.
            let rest = self.brokers.get(at..)?;
            let here = u64::from(count - passed) * rest.len() as u64;
            if turn < here {
                let broker = usize::try_from(turn % rest.len() as u64).ok()?;
                let id = passed + u32::try_from(turn / rest.len() as u64).ok()?;
                return rest.get(broker).map(|(broker, _)| Queue { broker: broker.clone(), id });
            }
            turn -= here;
            passed = *count;
        }
        None
    }

    pub(super) fn has(&self, broker: &str) -> bool {
        self.brokers.iter().any(|(address, _)| address == broker)
    }
}

/// Name servers write numbers as keys without quotes, which no JSON has: `{0:"127.0.0.1:10911"}`.
fn with_quoted_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut in_text, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        out.push(letter);
        rest = &rest[letter.len_utf8()..];
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = in_text,
            '"' => in_text = !in_text,
            '{' | ',' if !in_text => {
                let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                if let Some((key, after)) = rest.split_at_checked(digits)
                    && !key.is_empty()
                    && after.starts_with(':')
                {
                    out.push_str(&format!("\"{key}\""));
                    rest = after;
                }
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_masters_that_may_be_written() {
        let told = br#"{"brokerDatas":[
            {"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"a","cluster":"c"},
            {"brokerAddrs":{"1":"10.0.0.3:10911"},"brokerName":"slave"},
            {"brokerAddrs":{"0":"10.0.0.4:10911"},"brokerName":"b"}],
            "queueDatas":[
            {"brokerName":"a","perm":6,"readQueueNums":8,"writeQueueNums":2},
            {"brokerName":"slave","perm":6,"writeQueueNums":2},
            {"brokerName":"b","perm":4,"writeQueueNums":2}]}"#;
        let all = |queues: Result<Queues, String>| {
            let queues = queues.expect("a route");
            (0..queues.total as usize).map(|turn| queues.at(turn).expect("a queue")).collect::<Vec<_>>()
        };
        let queue = |id| Queue { broker: "10.0.0.1:10911".to_owned(), id };
        assert_eq!(all(Queues::read(told, 8)), [queue(0), queue(1)]);
        assert_eq!(all(Queues::read(told, 1)), [queue(0)]);
        assert_eq!(Queues::read(b"{}", 8), Ok(Queues::default()));
        assert_eq!(Queues::default().at(5), None);
        assert!(Queues::read(b"no", 8).is_err());
    }

    /// Each queue once in a round, and neighbours at different brokers as long as there are some.
    #[test]
    fn turns_go_around_brokers_and_queues() {
        let brokers = [("a", 1), ("b", 3), ("c", 3)].map(|(name, count)| (name.to_owned(), count));
        let queues = Queues { brokers: brokers.into(), total: 7 };
        let seen: Vec<String> =
            (7..14).filter_map(|turn| queues.at(turn)).map(|it| format!("{}{}", it.broker, it.id)).collect();
        assert_eq!(seen, ["a0", "b0", "c0", "b1", "c1", "b2", "c2"]);
    }

    #[test]
    fn what_a_name_server_says_is_bounded() {
        let route = |count: usize, queues: u32, address: &str| {
            let brokers: Vec<String> = (0..count)
                .map(|at| format!(r#"{{"brokerName":"{at}","brokerAddrs":{{0:"{address}{at}:1"}}}}"#))
                .collect();
            let written: Vec<String> = (0..count)
                .map(|at| format!(r#"{{"brokerName":"{at}","perm":6,"writeQueueNums":{queues}}}"#))
                .collect();
            format!(r#"{{"brokerDatas":[{}],"queueDatas":[{}]}}"#, brokers.join(","), written.join(","))
        };
        let read = |text: String| Queues::read(text.as_bytes(), u32::MAX);
        let queues = read(route(1000, u32::MAX, "h")).expect("a route");
        assert_eq!((queues.brokers.len(), queues.total), (1000, 4_096_000));
        assert_eq!(queues.at(usize::MAX).map(|queue| queue.id < MOST_QUEUES), Some(true));
        assert!(read(route(1025, 1, "h")).is_err_and(|error| error.contains("more than 1024 brokers")));
        assert!(read(route(20_000, 1, "h")).is_err_and(|error| error.contains("more than 65536 values")));
        assert_eq!(read(route(1, 1, &"h".repeat(600))), Ok(Queues::default()));
    }

    #[test]
    fn numbers_in_texts_stay() {
        let text = r#"{"a":"{0:","b\"{1:":{2:"x",33:"é,4:"},"c":[5,6]}"#;
        assert_eq!(with_quoted_keys(text), r#"{"a":"{0:","b\"{1:":{"2":"x","33":"é,4:"},"c":[5,6]}"#);
    }
}
