//! Where a topic is: which brokers have queues of it that may be written.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A queue that messages are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    /// Address of the broker.
    pub broker: String,
    pub id: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Route {
    #[serde(default)]
    queue_datas: Vec<Queues>,
    #[serde(default)]
    broker_datas: Vec<Broker>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queues {
    broker_name: String,
    write_queue_nums: u32,
    perm: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Broker {
    broker_name: String,
    broker_addrs: BTreeMap<String, String>,
}

/// Among the addresses of a broker.
const MASTER: &str = "0";
const MAY_BE_WRITTEN: u32 = 2;
/// Of one topic, over all brokers.
const MOST_QUEUES: usize = 4096;

/// The queues that a name server tells, `per_broker` of each at most.
pub(super) fn queues(told: &[u8], per_broker: u32) -> Result<Vec<Queue>, String> {
    let text = with_quoted_keys(&String::from_utf8_lossy(told));
    let route: Route = serde_json::from_str(&text).map_err(|error| format!("route of the topic: {error}"))?;
    let mut queues = Vec::new();
    for of in route.queue_datas.iter().filter(|queues| queues.perm & MAY_BE_WRITTEN != 0) {
        let broker = route.broker_datas.iter().find(|broker| broker.broker_name == of.broker_name);
        if let Some(address) = broker.and_then(|broker| broker.broker_addrs.get(MASTER)) {
            let ids = 0..of.write_queue_nums.min(per_broker);
            queues.extend(ids.take(MOST_QUEUES).map(|id| Queue { broker: address.clone(), id }));
        }
    }
    queues.truncate(MOST_QUEUES);
    // By turns of brokers, so that the next queue after one that fails is another broker's.
    queues.sort_by(|a, b| (a.id, &a.broker).cmp(&(b.id, &b.broker)));
    Ok(queues)
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
        let queue = |id| Queue { broker: "10.0.0.1:10911".to_owned(), id };
        assert_eq!(queues(told, 8), Ok(vec![queue(0), queue(1)]));
        assert_eq!(queues(told, 1), Ok(vec![queue(0)]));
        assert_eq!(queues(b"{}", 8), Ok(vec![]));
        assert!(queues(b"no", 8).is_err());
    }

    #[test]
    fn numbers_in_texts_stay() {
        let text = r#"{"a":"{0:","b\"{1:":{2:"x",33:"é,4:"},"c":[5,6]}"#;
        assert_eq!(with_quoted_keys(text), r#"{"a":"{0:","b\"{1:":{"2":"x","33":"é,4:"},"c":[5,6]}"#);
    }
}
