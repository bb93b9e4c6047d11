//! The configuration, prepared for requests.

use std::sync::OnceLock;

use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{Request, Variable, route::Birth, variables::Named};
use tidegate_protocol::{HeaderId, Method};

use super::{
    entry::has_other_spelling,
    rules::{self, Asked, Directives},
};
use crate::{
    common::{
        auth::{ExternalUser, Identified},
        conf::typed,
    },
    lua,
};

#[derive(Deserialize)]
struct Conf {
    max_resp_body_size: usize,
    cache_key: Vec<String>,
    cache_http_status: Vec<u16>,
    cache_method: Vec<String>,
    hide_cache_headers: bool,
    cache_control: bool,
    cache_bypass: Option<Vec<String>>,
    no_cache: Option<Vec<String>>,
    cache_ttl: f64,
    consumer_isolation: bool,
    cache_set_cookie: bool,
}

/// Ends the keys of answers to `POST`, which are for no other method.
const POST: &[u8] = b"\x02POST";

enum Part {
    Text(Vec<u8>),
    Variable(Variable),
}

/// Texts and variables, joined.
pub(crate) struct Joined(Vec<Part>);

impl Joined {
    fn new(parts: &[String]) -> Joined {
        let part = |part: &String| match part.strip_prefix('$') {
            Some(name) => Part::Variable(Variable::resolve(name)),
            None => Part::Text(part.clone().into_bytes()),
        };
        Joined(parts.iter().map(part).collect())
    }

    fn write(&self, request: &Request, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => {
                    out.extend_from_slice(&request.variable(variable).unwrap_or_default());
                }
            }
        }
    }

    /// As [`Joined::write`], with each value's length behind it: `a` and `bc` make another key than `ab` and `c`.
    fn write_key(&self, request: &Request, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => {
                    let value = request.variable(variable).unwrap_or_default();
                    out.extend_from_slice(&value);
                    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
                }
            }
        }
    }

    /// The fields whose values are in it.
    fn fields(&self) -> Vec<String> {
        let names = self.0.iter().filter_map(|part| match part {
            Part::Variable(Variable::Header(name)) => Some(name.to_string()),
            Part::Variable(Variable::Named(Named::ContentType)) => Some("content-type".to_owned()),
            _ => None,
        });
        names.collect()
    }

    /// The variables that only Lua can set.
    fn of_lua(&self) -> Vec<Variable> {
        let variables = self.0.iter().filter_map(|part| match part {
            Part::Variable(variable @ Variable::Custom(_)) => Some(variable.clone()),
            _ => None,
        });
        variables.collect()
    }

    fn says_yes(&self, request: &Request) -> bool {
        let mut value = Vec::new();
        self.write(request, &mut value);
        rules::says_yes(&value)
    }
}

pub(super) struct Settings {
    /// Keys are digests, which tell nothing of what is in them.
    hashed: bool,
    key: Joined,
    /// Variables of the key without which there is none.
    needed: Vec<Variable>,
    /// The fields that the key distinguishes.
    fields: Vec<String>,
    /// Answers to one consumer are not for others, unless one of `shared_by` has a value.
    isolation: bool,
    shared_by: Vec<Variable>,
    /// The key distinguishes clients with different certificates.
    key_has_certificate: bool,
    /// The key distinguishes paths.
    has_path: bool,
    /// The key distinguishes hosts.
    has_host: bool,
    /// The key names the service: its routes share what they store.
    of_service: bool,
    key_has_credentials: bool,
    /// Distinguishes gateways that share a folder on the disk.
    installation: [u8; 16],
    methods: Vec<String>,
    statuses: Vec<u16>,
    bypass: Option<Joined>,
    no_cache: Option<Joined>,
    pub(crate) max_body_bytes: usize,
    pub(crate) hide_headers: bool,
    pub cache_control: bool,
    pub ttl_seconds: f64,
    pub(crate) keep_set_cookie: bool,
}

/// What Lua may write into `ctx` to identify the client.
const NAMED_BY_LUA: [&str; 2] = ["external_user", "consumer_name"];

/// Variables that say in a key whose answers it is for, where they have a value. Not `$remote_user` and
/// `$http_authorization`: a client that is identified by something else can write anything there.
const IDENTITIES: [&str; 2] = ["consumer_name", "consumer_group_id"];
/// Variables with the decoded path.
const PATHS: [&str; 3] = ["request_uri", "uri", "document_uri"];
/// In a key it distinguishes even two clients of one consumer, and a client without the secret cannot make that key.
const CREDENTIALS: &str = "$http_authorization";

/// Of the gateway's own folder, wherever it was started from.
fn installation() -> [u8; 16] {
    static DIGEST: OnceLock<[u8; 16]> = OnceLock::new();
    let Some(host) = tidegate_plugin_api::host() else { return [0; 16] };
    *DIGEST.get_or_init(|| {
        let prefix = host.prefix.canonicalize().unwrap_or_else(|_| host.prefix.clone());
        Md5::digest(prefix.as_os_str().as_encoded_bytes()).into()
    })
}

impl Settings {
    pub(super) fn new(conf: &Value, hashed: bool) -> Result<Settings, String> {
        let conf: Conf = typed(conf)?;
        let named = |name: &&str| conf.cache_key.iter().any(|part| part.strip_prefix('$') == Some(*name));
        let shared_by = IDENTITIES.iter().filter(|name| named(name)).map(|name| Variable::resolve(name));
        let key = Joined::new(&conf.cache_key);
        Ok(Settings {
            hashed,
            shared_by: shared_by.collect(),
            needed: key.of_lua(),
            fields: key.fields(),
            key,
            isolation: conf.consumer_isolation,
            has_path: PATHS.iter().any(named),
            has_host: named(&"host"),
            of_service: conf.cache_key.iter().any(|part| part == "$service_id"),
            key_has_certificate: conf.cache_key.iter().any(|part| part.starts_with("$ssl_client_")),
            key_has_credentials: conf.cache_key.iter().any(|part| part == CREDENTIALS),
            installation: installation(),
            methods: conf.cache_method,
            statuses: conf.cache_http_status,
            bypass: conf.cache_bypass.as_deref().map(Joined::new),
            no_cache: conf.no_cache.as_deref().map(Joined::new),
            max_body_bytes: conf.max_resp_body_size,
            hide_headers: conf.hide_cache_headers,
            cache_control: conf.cache_control,
            ttl_seconds: conf.cache_ttl,
            keep_set_cookie: conf.cache_set_cookie,
        })
    }

    pub(super) fn key(&self, request: &Request) -> Vec<u8> {
        let mut key = self.key_of_get(request);
        if request.head.method == Method::Post {
            key.extend_from_slice(POST);
        }
        if self.hashed { HEXLOWER.encode(&Md5::digest(&key)).into_bytes() } else { key }
    }

    fn key_of_get(&self, request: &Request) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        self.write_place(request, &mut key);
        let has_value = |variable| request.variable(variable).is_some_and(|value| !value.is_empty());
        if self.isolation && !self.shared_by.iter().any(has_value) {
            // Lua may name a consumer, too.
            let of = |variable| {
                let value = request.variable(&Variable::Named(variable))?.into_owned();
                (!value.is_empty()).then_some(value)
            };
            let name = of(Named::ConsumerName).or_else(|| of(Named::RemoteUser));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                key.extend_from_slice(&name);
                // No consumer's name has this byte.
                key.push(1);
            }
        }
        self.key.write_key(request, &mut key);
        // `$request_uri` is decoded: `/a%3Fb` and `/a?b` are two resources with one text (RFC 3986 section 2.2).
        let raw = request.head.raw_path();
        if self.has_path && *raw != *request.path {
            key.push(4);
            key.extend_from_slice(raw);
        }
        // `$host` has no port, and the upstream gets the field as it was sent: it may serve another site on each port.
        let host = request.head.headers.known(HeaderId::Host).unwrap_or_default();
        if self.has_host && !host.eq_ignore_ascii_case(&request.host) {
            key.push(5);
            key.extend(host.iter().map(u8::to_ascii_lowercase));
        }
        key
    }

    /// Whose answers these are. Without it a route that guards less would give away what another one has stored.
    fn write_place(&self, request: &Request, key: &mut Vec<u8>) {
        let Some(route) = &request.route else { return };
        let (kind, id, birth) = match route.service.as_ref().filter(|_| self.of_service) {
            Some(service) => (b's', &service.id, service.birth),
            None => (b'r', &route.id, Some(route.birth)),
        };
        key.extend_from_slice(&self.installation);
        key.push(kind);
        key.extend_from_slice(id.as_bytes());
        // No id has this byte.
        key.push(3);
        key.extend_from_slice(birth.as_ref().map(Birth::as_bytes).unwrap_or_default());
    }

    /// The keys under which `GET` and `POST` have their answers, of a request with another method.
    pub(super) fn keys(&self, request: &Request) -> [Vec<u8>; 2] {
        let key = self.key_of_get(request);
        let of_post = [&key, POST].concat();
        [key, of_post]
    }

    pub(super) fn asked(&self, request: &Request) -> Asked {
        let headers = &request.head.headers;
        // What the client sent counts, also where a plugin took it off since (RFC 9111 section 3.5).
        let has_credentials = headers.had(HeaderId::Authorization) && !self.key_has_credentials;
        // A certificate identifies the client as well.
        let facts = request.connection.tls.as_ref();
        let is_known =
            !self.key_has_certificate && facts.is_some_and(|facts| facts.client_certificate.is_some());
        Asked {
            credentials: has_credentials
                || is_known
                || request.extensions.get::<Identified>().is_some()
                || request.extensions.get::<ExternalUser>().is_some()
                || NAMED_BY_LUA.iter().any(|name| lua::context_field(request, name).is_some()),
            no_store: Directives::of(headers).no_store,
        }
    }

    pub(crate) fn caches_method(&self, request: &Request) -> bool {
        self.methods.iter().any(|method| method.as_bytes() == request.head.method.as_bytes())
    }

    pub(crate) fn caches_status(&self, status: u16) -> bool {
        self.statuses.contains(&status)
    }

    /// Nothing is looked up, nor stored, under a key that lacks a part: it would be the same for different requests. No key
    /// knows the body of a `GET`, nor a field that the upstream may take for one of the key's.
    fn has_no_key(&self, request: &Request) -> bool {
        let has_body = request.head.method != Method::Post && !request.body.is_empty();
        has_body
            || has_other_spelling(&self.fields, request)
            || self
                .needed
                .iter()
                .any(|variable| request.variable(variable).is_none_or(|value| value.is_empty()))
    }

    pub(crate) fn bypasses(&self, request: &Request) -> bool {
        self.has_no_key(request) || self.bypass.as_ref().is_some_and(|bypass| bypass.says_yes(request))
    }

    pub(crate) fn refuses_to_store(&self, request: &Request) -> bool {
        self.has_no_key(request) || self.no_cache.as_ref().is_some_and(|no_cache| no_cache.says_yes(request))
    }
}
