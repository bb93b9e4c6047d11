//! Hands requests to a function of AWS Lambda, which answers them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::sigv4::{Credentials, Signer};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef};
use tidegate_protocol::uri::{encode_component, percent_decode, query_pairs};
use tidegate_telemetry::clock;

use super::remote::{self, Authorize, Call};
use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "aws-lambda",
    version: 0.1,
    priority: -1899,
    answers: true,
    schema: include_str!("aws_lambda.json"),
    encrypt_fields: &["authorization.apikey", "authorization.iam.accesskey", "authorization.iam.secretkey"],
    headers: &[
        ("authorization.apikey", Text::Value),
        ("authorization.iam.accesskey", Text::Value),
        ("authorization.iam.aws_region", Text::Value),
        ("authorization.iam.service", Text::Value),
    ],
    phases: Phases::ACCESS,
    check: remote::check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Default, Deserialize)]
struct Authorization {
    apikey: Option<String>,
    iam: Option<Iam>,
}

#[derive(Deserialize)]
struct Iam {
    accesskey: String,
    secretkey: String,
    aws_region: String,
    service: String,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let authorization = conf.get("authorization").map(typed::<Authorization>).transpose()?;
    remote::build(PLUGIN.name, conf, authorization.unwrap_or_default())
}

impl Authorize for Authorization {
    /// A client that has a key or a signature of its own is asked with these.
    fn authorize(&self, call: &mut Call) {
        if let Some(key) = &self.apikey
            && !call.has("x-api-key")
        {
            call.set("X-Api-Key", key.as_str());
            return;
        }
        if let Some(iam) = &self.iam
            && !call.has("authorization")
        {
            iam.sign(call, clock::unix_ms());
        }
    }
}

impl Iam {
    fn sign(&self, call: &mut Call, now_ms: i64) {
        let request = &call.0;
        let (path, query) = request.endpoint.target.split_once('?').unwrap_or((&request.endpoint.target, ""));
        let query = sorted(query);
        let host = request.endpoint.host_header();
        // What no proxy on the way changes, and what is for AWS. The date is ours.
        let is_signed = |name: &str| {
            let name = name.to_ascii_lowercase();
            name == "content-type" || name.starts_with("x-amz-") && name != "x-amz-date"
        };
        let mut fields = vec![("Host", host)];
        for (name, value) in request.headers.iter().filter(|(name, _)| is_signed(name)) {
            let value = String::from_utf8_lossy(value).trim().to_owned();
            match fields.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
                Some((_, values)) => values.extend([",", &value]),
                None => fields.push((name, value)),
            }
        }
        let signer = Signer {
            credentials: Credentials {
                access_key_id: &self.accesskey,
                secret_access_key: &self.secretkey,
                session_token: None,
            },
            region: &self.aws_region,
            service: &self.service,
            now_ms,
        };
        // Each part of the path is encoded once more than it is sent.
        let parts: Vec<String> = path.split('/').map(tidegate_protocol::uri::encoded_component).collect();
        let signed = signer.sign(request.method.as_str(), (&parts.join("/"), &query), &fields, &request.body);
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        call.0.endpoint.target = target;
        for (name, value) in signed {
            if ["Host", "X-Amz-Date", "Authorization"].contains(&name.as_str()) {
                call.set(&name, value);
            }
        }
    }
}

/// The arguments as they are signed, and sent: each name and value encoded in one way, in order.
fn sorted(query: &str) -> String {
    let encoded = |text: &[u8]| {
        let mut out = Vec::new();
        encode_component(&percent_decode(text, true), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let mut pairs: Vec<(String, String)> = query_pairs(query.as_bytes())
        .map(|(name, value)| (encoded(name), encoded(value.unwrap_or_default())))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_as_they_are_signed() {
        for (query, expected) in [
            ("", ""),
            ("b=2&a=1", "a=1&b=2"),
            (
                "with%20space=a%2Fb%20c&multi=m2&multi=m1&flag&a=*&a-=x",
                "a=%2A&a-=x&flag=&multi=m1&multi=m2&with%20space=a%2Fb%20c",
            ),
            ("a=x+y&&%7e=~", "a=x%20y&~=~"),
        ] {
            assert_eq!(sorted(query), expected, "{query}");
        }
    }
}
