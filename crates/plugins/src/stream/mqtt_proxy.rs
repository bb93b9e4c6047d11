//! Lets clients of MQTT 3.1.1 and 5 through, and balances them by their client id (`$mqtt_client_id`).
//!
//! Only the first packet, CONNECT, is read: [MQTT 5, section 3.1](https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, PluginDef, Session, SessionVerdict, StreamPlugin};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "mqtt-proxy",
    version: 0.1,
    priority: 1000,
    schema: include_str!("mqtt_proxy.json"),
    remarks,
    only_tcp: true,
    build_stream: build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct MqttProxy {
    protocol_name: String,
    protocol_level: i64,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn StreamPlugin>, String> {
    let conf: MqttProxy = typed(conf)?;
    Ok(Arc::new(conf))
}

/// How clients name the protocol, and with which levels: 3.1, 3.1.1 and 5.
const VERSIONS: [(&str, i64); 3] = [("MQIsdp", 3), ("MQTT", 4), ("MQTT", 5)];

/// A name and level that no client sends.
fn remarks(conf: &Value) -> Vec<String> {
    let name = conf.get("protocol_name").map_or(Some("MQTT"), Value::as_str);
    let (Some(name), Some(level)) = (name, conf.get("protocol_level").and_then(Value::as_i64)) else {
        return Vec::new();
    };
    let text = format!(
        "no client sends protocol_name {name} with protocol_level {level}: every session is closed; write 4 for MQTT 3.1.1, or 5"
    );
    (!VERSIONS.contains(&(name, level))).then_some(text).into_iter().collect()
}

impl StreamPlugin for MqttProxy {
    fn preread(&self, session: &mut Session, seen: &[u8]) -> SessionVerdict {
        let reason = match connect(seen) {
            Ok(None) => return SessionVerdict::More,
            Ok(Some(connect)) if connect.protocol != self.protocol_name.as_bytes() => format!(
                "expect protocol name: {}, but got {}",
                self.protocol_name,
                String::from_utf8_lossy(connect.protocol)
            ),
            Ok(Some(connect)) if i64::from(connect.level) != self.protocol_level => {
                format!("expect protocol level: {}, but got {}", self.protocol_level, connect.level)
            }
            Ok(Some(connect)) => {
                // Without an id the client's address decides.
                if !connect.client_id.is_empty() {
                    session.variables.push(("mqtt_client_id".into(), connect.client_id.to_vec()));
                }
                return SessionVerdict::Next;
            }
            Err(reason) => reason.to_owned(),
        };
        error_log::log(Level::Error, format_args!("mqtt-proxy: {reason}, client: {}", session.remote_addr));
        SessionVerdict::Close(503)
    }
}

#[derive(Debug, PartialEq)]
struct Connect<'a> {
    protocol: &'a [u8],
    level: u8,
    client_id: &'a [u8],
}

const MALFORMED: &str = "the CONNECT packet is malformed";

/// `None`: there is more of it to come.
fn connect(seen: &[u8]) -> Result<Option<Connect<'_>>, &'static str> {
    let Some((first, rest)) = seen.split_first() else { return Ok(None) };
    // The flags of CONNECT are 0.
    if *first != 0x10 {
        return Err("the first packet is not CONNECT");
    }
    let Some((length, rest)) = variable_length(rest)? else { return Ok(None) };
    let Some(packet) = rest.get(..length) else { return Ok(None) };
    read(packet).map(Some).ok_or(MALFORMED)
}

/// The fields of a whole packet.
fn read(packet: &[u8]) -> Option<Connect<'_>> {
    let (protocol, rest) = text(packet)?;
    let (level, rest) = rest.split_first()?;
    // Flags, and how long the client may be silent.
    let mut rest = rest.get(3..)?;
    if *level == 5 {
        let (length, properties) = variable_length(rest).ok()??;
        rest = properties.get(length..)?;
    }
    let (client_id, _) = text(rest)?;
    Some(Connect { protocol, level: *level, client_id })
}

/// A text behind its length, and what follows it.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// A number of up to four bytes with seven bits each, and what follows it.
fn variable_length(bytes: &[u8]) -> Result<Option<(usize, &[u8])>, &'static str> {
    let mut number = 0;
    for at in 0..4 {
        let Some(byte) = bytes.get(at) else { return Ok(None) };
        number |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((number, bytes.get(at + 1..).unwrap_or_default())));
        }
    }
    Err(MALFORMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MQTT4: &[u8] = b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo";
    const MQTT5: &[u8] = b"\x10\x15\x00\x04MQTT\x05\x02\x00\x3c\x05\x11\x00\x00\x00\x0a\x00\x03foo";

    #[test]
    fn packets_come_in_pieces() {
        for (packet, level) in [(MQTT4, 4), (MQTT5, 5)] {
            for cut in 0..packet.len() {
                assert_eq!(connect(&packet[..cut]), Ok(None), "{cut}");
            }
            let expected = Connect { protocol: b"MQTT", level, client_id: b"foo" };
            assert_eq!(connect(packet), Ok(Some(expected)));
        }
        assert!(connect(b"GET / HTTP/1.1").is_err());
        assert!(connect(b"\x10\xff\xff\xff\xff").is_err());
        assert!(connect(b"\x10\x02\x00\x04").is_err());
    }
}
