//! What kafka-logger tells a broker: who it is, and how each message is to be kept.

use serde_json::{Value, json};

use tidegate_testkit::eventually_within;

use super::{
    Logged,
    error_log::broker::{Broker, SOON},
};

#[test]
fn messages_as_configured() {
    let broker = Broker::start();
    let sasl = json!({"mechanism": "PLAIN", "user": "of-mine", "password": "secret-of-mine"});
    let brokers = json!([{"host": "127.0.0.1", "port": broker.address.port(), "sasl_config": sasl}]);
    let conf = json!({"brokers": brokers, "kafka_topic": "errors", "key": "of-key", "required_acks": -1});
    let logged = Logged::start("kafka-logger", conf, Value::Null);
    logged.get("/asked");
    let message = broker.message();
    assert_eq!(
        (message.topic.as_str(), message.acks, message.key.as_deref()),
        ("errors", -1, Some("of-key"))
    );
    assert!(message.value.contains("/asked"), "{}", message.value);
    assert_eq!(broker.login(), "\0of-mine\0secret-of-mine");
}

#[test]
fn brokers_in_the_old_form() {
    let broker = Broker::start();
    let conf = json!({"broker_list": {"127.0.0.1": broker.address.port()}, "kafka_topic": "errors"});
    let logged = Logged::start("kafka-logger", conf, Value::Null);
    logged.get("/asked");
    let message = broker.message();
    assert_eq!((message.topic.as_str(), message.acks, message.key.as_deref()), ("errors", 1, None));
}

/// Leaders are looked up with the first message, and with the first one after that time.
#[test]
fn leaders_are_looked_up_again() {
    let broker = Broker::start();
    let brokers = json!([{"host": "127.0.0.1", "port": broker.address.port()}]);
    let conf = json!({"brokers": brokers, "kafka_topic": "errors", "meta_refresh_interval": 1});
    let logged = Logged::start("kafka-logger", conf, Value::Null);
    eventually_within(SOON, "leaders are looked up again", || {
        logged.get("/asked");
        broker.message();
        broker.asked() >= 2
    });
}
