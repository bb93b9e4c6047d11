//! RocketMQ: name servers and brokers, over its remoting protocol.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, mpsc},
};

use aws_lc_rs::hmac;
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tidegate_testkit::{PATIENCE, usage::growth};

use super::{Logged, parsed, tls_config, with};

/// What a producer sent.
struct Message {
    topic: String,
    queue: String,
    properties: BTreeMap<String, String>,
    body: String,
    /// Whether it is signed with the key `secret`.
    is_signed: bool,
}

/// A name server and broker in one.
struct Server {
    address: SocketAddr,
    messages: mpsc::Receiver<Message>,
}

#[derive(Clone, Default)]
struct Behaviour {
    /// The only topic that it knows; else any.
    topic: Option<&'static str>,
    tls: Option<Arc<ServerConfig>>,
    /// Brokers that it names, each with this many queues; else itself, with three.
    names: Option<(usize, u32)>,
    /// Of so many messages it refuses all but the last.
    refuses: usize,
}

impl Server {
    fn start(behaviour: Behaviour) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let refused = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            for stream in listener.incoming().flatten() {
                let session = Session {
                    address,
                    behaviour: behaviour.clone(),
                    messages: sender.clone(),
                    refused: refused.clone(),
                };
                std::thread::spawn(move || match session.behaviour.tls.clone() {
                    None => session.serve(stream),
                    Some(config) => {
                        let connection = ServerConnection::new(config).expect("a connection");
                        session.serve(StreamOwned::new(connection, stream));
                    }
                });
            }
        });
        Server { address, messages }
    }

    fn message(&self) -> Message {
        self.messages.recv_timeout(PATIENCE).expect("a message")
    }

    fn conf(&self, more: Value) -> Value {
        with(json!({"nameserver_list": [self.address.to_string()], "topic": "requests"}), more)
    }
}

/// A server whose messages are shown to a function.
pub(super) fn each(show: impl Fn(&str) + Send + 'static) -> SocketAddr {
    let server = Server::start(Behaviour::default());
    let address = server.address;
    std::thread::spawn(move || server.messages.iter().for_each(|message| show(&message.body)));
    address
}

struct Session {
    address: SocketAddr,
    behaviour: Behaviour,
    messages: mpsc::Sender<Message>,
    refused: Arc<std::sync::atomic::AtomicUsize>,
}

impl Session {
    fn serve(&self, mut stream: impl Read + Write) {
        while let Ok((head, body)) = read(&mut stream) {
            let (code, told) = self.answer(&head, &body);
            let answer =
                json!({"code": code, "flag": 1, "opaque": head["opaque"], "remark": "as told", "version": 1});
            // Between request and answer it asks for something itself.
            let asks = json!({"code": 40, "flag": 0, "opaque": head["opaque"]});
            let frames = [frame(&asks, ""), frame(&answer, &told)].concat();
            if stream.write_all(&frames).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &Value, body: &[u8]) -> (u32, String) {
        let field = |name: &str| head["extFields"][name].as_str().unwrap_or_default().to_owned();
        match head["code"].as_u64() {
            Some(105) if self.behaviour.topic.is_some_and(|topic| topic != field("topic")) => {
                (17, String::new())
            }
            Some(105) if self.behaviour.names.is_some() => (0, self.many()),
            // Keys that are numbers have no quotes.
            Some(105) => (
                0,
                format!(
                    r#"{{"brokerDatas":[{{"brokerAddrs":{{0:"{}"}},"brokerName":"b"}}],
                        "queueDatas":[{{"brokerName":"b","perm":6,"readQueueNums":3,"writeQueueNums":3}}]}}"#,
                    self.address
                ),
            ),
            Some(310) => {
                let before = self.refused.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                if before < self.behaviour.refuses {
                    return (2, String::new());
                }
                let properties = field("i");
                let properties =
                    properties.split('\u{2}').filter_map(|property| property.split_once('\u{1}'));
                let _ = self.messages.send(Message {
                    topic: field("b"),
                    queue: field("e"),
                    properties: properties.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                    body: String::from_utf8_lossy(body).into_owned(),
                    is_signed: is_signed(&head["extFields"], body),
                });
                (0, String::new())
            }
            other => panic!("request {other:?}"),
        }
    }

    /// Brokers under many names that are all this server.
    fn many(&self) -> String {
        let (count, queues) = self.behaviour.names.unwrap_or_default();
        let each = |make: &dyn Fn(usize) -> String| (0..count).map(make).collect::<Vec<_>>().join(",");
        let brokers =
            each(&|at| format!(r#"{{"brokerAddrs":{{0:"{}"}},"brokerName":"b{at}"}}"#, self.address));
        let written = each(&|at| format!(r#"{{"brokerName":"b{at}","perm":6,"writeQueueNums":{queues}}}"#));
        format!(r#"{{"brokerDatas":[{brokers}],"queueDatas":[{written}]}}"#)
    }
}

fn is_signed(fields: &Value, body: &[u8]) -> bool {
    let fields: BTreeMap<String, String> = serde_json::from_value(fields.clone()).expect("texts");
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"secret");
    let values = fields.iter().filter(|(name, _)| *name != "Signature").map(|(_, value)| value.as_str());
    let text = [values.collect::<String>().as_bytes(), body].concat();
    let expected = STANDARD.encode(hmac::sign(&key, &text));
    fields.get("AccessKey").is_some_and(|name| name == "me") && fields.get("Signature") == Some(&expected)
}

fn read(stream: &mut impl Read) -> io::Result<(Value, Vec<u8>)> {
    let mut lengths = [0; 8];
    stream.read_exact(&mut lengths)?;
    let [length, head] = [&lengths[..4], &lengths[4..]]
        .map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")) as usize);
    let mut rest = vec![0; length - 4];
    stream.read_exact(&mut rest)?;
    let body = rest.split_off(head);
    Ok((serde_json::from_slice(&rest).expect("JSON"), body))
}

fn frame(head: &Value, body: &str) -> Vec<u8> {
    let head = head.to_string();
    let lengths = [(4 + head.len() + body.len()) as u32, head.len() as u32].map(u32::to_be_bytes).concat();
    [lengths.as_slice(), head.as_bytes(), body.as_bytes()].concat()
}

#[test]
fn messages_of_batches() {
    let server = Server::start(Behaviour::default());
    let conf = server.conf(json!({"key": "k", "tag": "t", "batch_max_size": 2, "include_req_body": true}));
    let logged = Logged::start("rocketmq-logger", conf, Value::Null);
    logged.post("/1", "", "question");
    logged.get("/2");
    let message = server.message();
    assert_eq!((message.topic.as_str(), message.is_signed), ("requests", false));
    let property = |name: &str| message.properties.get(name).map(String::as_str);
    assert_eq!((property("KEYS"), property("TAGS"), property("WAIT")), (Some("k"), Some("t"), Some("true")));
    assert!(property("UNIQ_KEY").is_some_and(|id| id.len() == 32));
    let entries = parsed(&message.body);
    assert_eq!(entries.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&entries[0]["request"]["body"], &entries[1]["request"]["uri"]),
        (&json!("question"), &json!("/2"))
    );
}

#[test]
fn messages_go_around_the_queues() {
    let server = Server::start(Behaviour::default());
    let conf = server.conf(json!({"log_format": {"uri": "$uri"}}));
    let logged = Logged::start("rocketmq-logger", conf, Value::Null);
    let mut queues: Vec<String> = Vec::new();
    for _ in 0..3 {
        logged.get("/1");
        let message = server.message();
        assert_eq!(parsed(&message.body), json!({"uri": "/1", "route_id": "r1", "service_id": "s1"}));
        assert_eq!(message.properties.get("KEYS"), None);
        queues.push(message.queue);
    }
    queues.sort();
    assert_eq!(queues, ["0", "1", "2"]);
}

#[test]
fn signed_requests_as_they_were_sent() {
    let server = Server::start(Behaviour { tls: Some(tls_config()), ..Behaviour::default() });
    let conf = server.conf(json!({
        "use_tls": true, "access_key": "me", "secret_key": "secret", "meta_format": "origin", "include_req_body": true,
    }));
    let logged = Logged::start("rocketmq-logger", conf, Value::Null);
    logged.post("/1?a=b", "X-A: b\r\n", "question");
    let message = server.message();
    assert!(message.is_signed);
    assert!(message.body.starts_with("POST /1?a=b HTTP/1.1\r\n") && message.body.contains("x-a: b\r\n"));
    assert!(message.body.ends_with("\r\n\r\nquestion"), "{}", message.body);
}

/// Brokers may make topics as they are written to; and a refused message is sent to the next queue.
#[test]
fn new_topics_and_other_queues() {
    let server = Server::start(Behaviour { topic: Some("TBW102"), refuses: 2, ..Behaviour::default() });
    let logged = Logged::start("rocketmq-logger", server.conf(json!({})), Value::Null);
    logged.get("/1");
    assert_eq!(server.message().topic, "requests");
}

#[test]
fn why_nothing_arrives_is_in_the_log() {
    let server = Server::start(Behaviour { topic: Some("other"), ..Behaviour::default() });
    let conf = server.conf(json!({"nameserver_list": [format!("127.0.0.1:{}", tidegate_testkit::free_port()), server.address.to_string()]}));
    let logged = Logged::start("rocketmq-logger", conf, Value::Null);
    logged.get("/1");
    logged.gateway.wait_for_log("failed to send data to rocketmq topic: ");
    assert!(server.messages.try_recv().is_err());
}

/// What a name server says is not expanded: a megabyte may name billions of queues.
#[test]
fn queues_are_numbers_and_brokers_are_few() {
    for (brokers, expected) in
        [(1_000, None), (20_000, Some("route of the topic: it has more than 65536 values"))]
    {
        let server = Server::start(Behaviour { names: Some((brokers, 65_535)), ..Behaviour::default() });
        let logged = Logged::start("rocketmq-logger", server.conf(json!({})), Value::Null);
        let ((), grown) = growth(&logged.gateway, || {
            logged.get("/1");
            match expected {
                None => assert_eq!(server.message().topic, "requests"),
                Some(reason) => logged.gateway.wait_for_log(reason),
            }
        });
        println!("{brokers} brokers: +{} MB", grown >> 20);
        assert!(grown < 64 << 20, "{brokers} brokers: +{} MB", grown >> 20);
    }
}
