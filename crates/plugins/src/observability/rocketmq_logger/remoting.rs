//! Commands of RocketMQ's remoting protocol: a length, a head in JSON, a body.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use serde::Deserialize;
use serde_json::json;
use tidegate_clients::nginx_base64;

pub(super) const ROUTE_OF_TOPIC: i32 = 105;
/// With fields that have names of one letter.
pub(super) const SEND_MESSAGE: i32 = 310;

pub(super) const SUCCESS: i32 = 0;
pub(super) const TOPIC_NOT_EXIST: i32 = 17;

/// That of a client library of version 4.6, which every server takes.
const VERSION: i32 = 317;

/// Of what a server says about a refusal, in a line of the log.
const LONGEST_REMARK: usize = 200;

/// Fields of a head; signatures need them in order.
pub(super) type Fields = BTreeMap<&'static str, String>;

pub(super) struct Command<'a> {
    pub code: i32,
    pub fields: Fields,
    pub body: &'a [u8],
}

pub(super) struct Credentials {
    pub access_key: String,
    pub secret_key: String,
}

impl Credentials {
    /// As servers with access control lists check it: the values of all fields, and the body, are signed.
    fn sign(&self, command: &mut Command) {
        command.fields.insert("AccessKey", self.access_key.clone());
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.secret_key.as_bytes());
        let mut context = hmac::Context::with_key(&key);
        command.fields.values().for_each(|value| context.update(value.as_bytes()));
        context.update(command.body);
        command.fields.insert("Signature", nginx_base64::encode(context.sign()));
    }
}

impl Command<'_> {
    /// The frame of the request with this number.
    pub(super) fn encode(mut self, number: i32, credentials: Option<&Credentials>) -> Vec<u8> {
        if let Some(credentials) = credentials {
            credentials.sign(&mut self);
        }
        let head = json!({
            "code": self.code, "language": "OTHER", "version": VERSION, "opaque": number, "flag": 0,
            "extFields": self.fields,
        });
        let head = head.to_string();
        let length = 4 + head.len() + self.body.len();
        let mut frame = Vec::with_capacity(4 + length);
        // The first byte of the head's length says that it is JSON, with 0.
        frame.extend_from_slice(&(length as u32).to_be_bytes());
        frame.extend_from_slice(&(head.len() as u32).to_be_bytes());
        frame.extend_from_slice(head.as_bytes());
        frame.extend_from_slice(self.body);
        frame
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RemotingResponse {
    pub code: i32,
    /// The number of the request.
    pub opaque: i32,
    #[serde(default)]
    flag: i32,
    remark: Option<String>,
    #[serde(skip)]
    pub body: Vec<u8>,
}

impl RemotingResponse {
    /// Of a frame without its length.
    pub(super) fn decode(mut frame: Vec<u8>) -> Result<RemotingResponse, String> {
        let (length, rest) = frame.split_first_chunk::<4>().ok_or("response of the server is too short")?;
        // Types other than JSON have a first byte that makes it longer than any frame.
        let length = u32::from_be_bytes(*length) as usize;
        let head = rest.get(..length).ok_or("response of the server has an invalid header")?;
        let mut answer: RemotingResponse =
            serde_json::from_slice(head).map_err(|error| format!("response of the server: {error}"))?;
        answer.body = frame.split_off(4 + length);
        Ok(answer)
    }

    /// Servers may ask for something in turn.
    pub(super) fn answers(&self, number: i32) -> bool {
        self.flag & 1 == 1 && self.opaque == number
    }

    pub(super) fn refusal(&self) -> String {
        let remark: String = self.remark.iter().flat_map(|text| text.chars()).take(LONGEST_REMARK).collect();
        format!("code {}: {remark}", self.code)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn command() -> Command<'static> {
        let fields = Fields::from([("b", "topic".to_owned()), ("a", "group".to_owned())]);
        Command { code: SEND_MESSAGE, fields, body: b"body" }
    }

    fn head(frame: &[u8]) -> Value {
        let length = u32::from_be_bytes(frame[4..8].try_into().expect("a length")) as usize;
        assert_eq!(frame[8 + length..], *b"body");
        assert_eq!(u32::from_be_bytes(frame[..4].try_into().expect("a length")) as usize, frame.len() - 4);
        serde_json::from_slice(&frame[8..8 + length]).expect("JSON")
    }

    /// The signature was computed with OpenSSL.
    #[test]
    fn frames_of_requests() {
        let plain = head(&command().encode(7, None));
        assert_eq!((&plain["code"], &plain["opaque"]), (&json!(310), &json!(7)));
        assert_eq!(plain["extFields"], json!({"a": "group", "b": "topic"}));
        let credentials = Credentials { access_key: "me".to_owned(), secret_key: "secret".to_owned() };
        let signed = head(&command().encode(7, Some(&credentials)));
        assert_eq!(signed["extFields"]["AccessKey"], "me");
        assert_eq!(signed["extFields"]["Signature"], "rrkXhWFPudGRdQdIrk5CNEUl8/w=");
    }

    #[test]
    fn frames_of_answers() {
        let text = br#"{"code":17,"flag":1,"opaque":7,"remark":"no","version":1}"#;
        let frame = [&(text.len() as u32).to_be_bytes()[..], text, b"rest"].concat();
        let answer = RemotingResponse::decode(frame.clone()).expect("an answer");
        assert_eq!((answer.code, answer.body.as_slice()), (TOPIC_NOT_EXIST, b"rest".as_slice()));
        assert!(answer.answers(7) && !answer.answers(8));
        assert_eq!(answer.refusal(), "code 17: no");
        for length in [0, 3, 4, 20] {
            assert!(RemotingResponse::decode(frame[..length].to_vec()).is_err(), "{length}");
        }
        let binary = [&[1, 0, 0, 4], &frame[4..]].concat();
        assert!(RemotingResponse::decode(binary).is_err());
    }
}
