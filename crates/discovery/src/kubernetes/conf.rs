//! Where a cluster is, how it is asked, and which of its endpoints count.

use std::path::PathBuf;

use regex::Regex;
use serde::Deserialize;
use tidegate_clients::http::{Endpoint, KeptClient};
use tidegate_protocol::uri::encoded_component;

use crate::http;

/// Milliseconds, as APISIX.
const CONNECT_MS: u64 = 2_000;
const READ_MS: u64 = 10_000;
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

#[derive(Deserialize)]
pub(super) struct Conf {
    pub id: Option<String>,
    service: Service,
    client: Access,
    namespace_selector: Option<Selector>,
    label_selector: Option<String>,
    default_weight: u32,
    watch_endpoint_slices: bool,
}

#[derive(Deserialize)]
struct Service {
    schema: String,
    host: String,
    port: String,
    ssl_verify: bool,
}

#[derive(Deserialize)]
struct Access {
    token: Option<String>,
    token_file: Option<String>,
}

#[derive(Deserialize)]
struct Selector {
    equal: Option<String>,
    not_equal: Option<String>,
    #[serde(rename = "match")]
    matching: Option<Vec<String>>,
    not_match: Option<Vec<String>>,
}

enum Namespaces {
    /// All, or the server chooses.
    All,
    Matching(Vec<Regex>),
    NotMatching(Vec<Regex>),
}

pub(super) struct Cluster {
    endpoint: Endpoint,
    verify: bool,
    token: Token,
    namespaces: Namespaces,
    /// Query arguments that choose, each with its `&`.
    pub(crate) selectors: String,
    pub weight: u32,
    pub slices: bool,
}

enum Token {
    Text(String),
    /// Read again for each list and watch: Kubernetes renews it.
    File(PathBuf),
}

impl Cluster {
    pub(super) fn new(conf: Conf) -> Result<Cluster, String> {
        let service = &conf.service;
        let (host, port) = (variable(&service.host)?, variable(&service.port)?);
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host };
        let endpoint = Endpoint::parse(&format!("{}://{host}:{port}", service.schema))?;
        let token = match (&conf.client.token, &conf.client.token_file) {
            (Some(token), _) => Token::Text(variable(token)?.trim().to_owned()),
            (None, Some(file)) => Token::File(variable(file)?.into()),
            (None, None) => Token::File(TOKEN_FILE.into()),
        };
        if matches!(&token, Token::Text(text) if text.is_empty()) && endpoint.tls {
            return Err("client.token is empty; https needs one".to_owned());
        }
        let mut selectors = String::new();
        let mut select = |name: &str, value: String| {
            selectors.push_str(&format!("&{name}={}", encoded_component(&value)));
        };
        if let Some(labels) = conf.label_selector.filter(|labels| !labels.is_empty()) {
            select("labelSelector", labels);
        }
        let mut namespaces = Namespaces::All;
        if let Some(selector) = conf.namespace_selector {
            if let Some(name) = selector.equal {
                select("fieldSelector", format!("metadata.namespace={name}"));
            } else if let Some(name) = selector.not_equal {
                select("fieldSelector", format!("metadata.namespace!={name}"));
            } else if let Some(patterns) = selector.matching {
                namespaces = Namespaces::Matching(compile(&patterns)?);
            } else if let Some(patterns) = selector.not_match {
                namespaces = Namespaces::NotMatching(compile(&patterns)?);
            }
        }
        Ok(Cluster {
            endpoint,
            verify: conf.service.ssl_verify,
            token,
            namespaces,
            selectors,
            weight: conf.default_weight,
            slices: conf.watch_endpoint_slices,
        })
    }

    /// A client with the current token.
    pub(super) async fn client(&self) -> Result<KeptClient, String> {
        let token = match &self.token {
            Token::Text(token) => token.clone(),
            Token::File(path) => {
                let path = path.clone();
                let shown = path.display().to_string();
                let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
                let text = read.map_err(|error| error.to_string())?;
                text.map_err(|error| format!("token file {shown}: {error}"))?.trim().to_owned()
            }
        };
        let mut client = http::client(self.endpoint.clone(), self.verify, CONNECT_MS, READ_MS);
        client.set_header("Authorization", format!("Bearer {token}"));
        Ok(client)
    }

    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        match &self.namespaces {
            Namespaces::All => true,
            Namespaces::Matching(patterns) => patterns.iter().any(|pattern| pattern.is_match(namespace)),
            Namespaces::NotMatching(patterns) => !patterns.iter().any(|pattern| pattern.is_match(namespace)),
        }
    }

    pub(super) fn path(&self) -> &'static str {
        if self.slices { "/apis/discovery.k8s.io/v1/endpointslices" } else { "/api/v1/endpoints" }
    }

    pub(crate) fn list_kind(&self) -> &'static str {
        if self.slices { "EndpointSliceList" } else { "EndpointsList" }
    }
}

/// The whole namespace has to match.
fn compile(patterns: &[String]) -> Result<Vec<Regex>, String> {
    let compile = |pattern: &String| {
        Regex::new(&format!("^(?:{pattern})$")).map_err(|error| format!("namespace_selector: {error}"))
    };
    patterns.iter().map(compile).collect()
}

/// `${NAME}` is a variable of the environment.
fn variable(text: &str) -> Result<String, String> {
    match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => std::env::var(name).map_err(|_| format!("environment variable {name} is not set")),
        None => Ok(text.to_owned()),
    }
}
