//! The configuration, prepared for requests.

use plugin::{Request, Variable, variables::Named};
use serde::Deserialize;
use serde_json::Value;
use wire::{HeaderId, Method};

use super::rules::{self, Asked, Directives};
use crate::common::{auth::Identified, conf::typed};

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
pub struct Joined(Vec<Part>);

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

    fn says_yes(&self, request: &Request) -> bool {
        let mut value = Vec::new();
        self.write(request, &mut value);
        rules::says_yes(&value)
    }
}

pub struct Settings {
    key: Joined,
    /// Answers to one consumer are not for others.
    isolation: bool,
    /// The key tells clients with different certificates apart.
    key_has_certificate: bool,
    /// The key names the service: its routes share what they store.
    of_service: bool,
    key_has_credentials: bool,
    methods: Vec<String>,
    statuses: Vec<u16>,
    bypass: Option<Joined>,
    no_cache: Option<Joined>,
    pub max_body_bytes: usize,
    pub hide_headers: bool,
    pub cache_control: bool,
    pub ttl_seconds: f64,
    pub keep_set_cookie: bool,
}

/// Variables that say in a key whose answers it is for. Not `$remote_user`: any client can write that name.
const IDENTITIES: [&str; 3] = ["$consumer_name", "$consumer_group_id", "$http_authorization"];
/// In a key it tells even two clients of one consumer apart, and who does not have the secret cannot make that key.
const CREDENTIALS: &str = "$http_authorization";

impl Settings {
    pub fn new(conf: &Value) -> Result<Settings, String> {
        let conf: Conf = typed(conf)?;
        let own = conf.cache_key.iter().any(|part| IDENTITIES.contains(&part.as_str()));
        Ok(Settings {
            key: Joined::new(&conf.cache_key),
            isolation: conf.consumer_isolation && !own,
            of_service: conf.cache_key.iter().any(|part| part == "$service_id"),
            key_has_certificate: conf.cache_key.iter().any(|part| part.starts_with("$ssl_client_")),
            key_has_credentials: conf.cache_key.iter().any(|part| part == CREDENTIALS),
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

    pub fn key(&self, request: &Request) -> Vec<u8> {
        let mut key = self.key_of_get(request);
        if request.head.method == Method::Post {
            key.extend_from_slice(POST);
        }
        key
    }

    fn key_of_get(&self, request: &Request) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        self.write_place(request, &mut key);
        if self.isolation {
            let name = request.consumer.as_ref().map(|consumer| consumer.username.as_bytes().to_vec());
            let name = name.filter(|name| !name.is_empty()).or_else(|| {
                request.variable(&Variable::Named(Named::RemoteUser)).map(|user| user.into_owned())
            });
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                key.extend_from_slice(&name);
                // No consumer's name has this byte.
                key.push(1);
            }
        }
        self.key.write(request, &mut key);
        key
    }

    /// Whose answers these are. Without it a route that guards less would give away what another one has stored.
    fn write_place(&self, request: &Request, key: &mut Vec<u8>) {
        let Some(route) = &request.route else { return };
        let (kind, id) = match route.service_id.as_ref().filter(|_| self.of_service) {
            Some(service) => (b's', service),
            None => (b'r', &route.id),
        };
        key.push(kind);
        key.extend_from_slice(id.as_bytes());
        // No id has this byte.
        key.push(3);
    }

    /// The keys under which `GET` and `POST` have their answers, of a request with another method.
    pub fn keys(&self, request: &Request) -> [Vec<u8>; 2] {
        let key = self.key_of_get(request);
        let of_post = [&key, POST].concat();
        [key, of_post]
    }

    pub fn asked(&self, request: &Request) -> Asked {
        let headers = &request.head.headers;
        // What the client sent counts, also where a plugin took it off since (RFC 9111 section 3.5).
        let has_credentials = headers.had(HeaderId::Authorization) && !self.key_has_credentials;
        // A certificate says who asks as well.
        let facts = request.connection.tls.as_ref();
        let is_known =
            !self.key_has_certificate && facts.is_some_and(|facts| facts.client_certificate.is_some());
        Asked {
            credentials: has_credentials || is_known || request.extensions.get::<Identified>().is_some(),
            no_store: Directives::of(headers).no_store,
        }
    }

    pub fn caches_method(&self, request: &Request) -> bool {
        self.methods.iter().any(|method| method.as_bytes() == request.head.method.as_bytes())
    }

    pub fn caches_status(&self, status: u16) -> bool {
        self.statuses.contains(&status)
    }

    pub fn bypasses(&self, request: &Request) -> bool {
        self.bypass.as_ref().is_some_and(|bypass| bypass.says_yes(request))
    }

    pub fn refuses_to_store(&self, request: &Request) -> bool {
        self.no_cache.as_ref().is_some_and(|no_cache| no_cache.says_yes(request))
    }
}
