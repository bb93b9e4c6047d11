//! Authenticates users of a directory: searches for the user's entry, then binds as it (RFC 4513). The entry's DN names the
//! consumer.

mod client;
mod credentials;
mod pool;

use std::{sync::Arc, time::Duration};

use client::{Connection, Found, INVALID_CREDENTIALS, SIZE_LIMIT_EXCEEDED, SUCCESS, Search};
use pool::Pool;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{Endpoint, TlsWanted};
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, Why,
    definition::ConsumerKey,
};
use tidegate_telemetry::error_log::{self, Level};

use super::ldap_auth::address_of;
use crate::common::{auth, conf::typed};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ldap-auth-advanced",
    version: 0.1,
    priority: 2541,
    kind: Some("auth"),
    schema: include_str!("ldap_auth_advanced.json"),
    consumer_schema: Some(include_str!("ldap_auth_advanced.consumer.json")),
    encrypt_fields: &["ldap_password"],
    phases: Phases::REWRITE,
    headers: &[("realm", Text::Value)],
    check,
    remarks,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    ldap_uri: String,
    use_ldaps: bool,
    use_starttls: bool,
    ssl_verify: bool,
    timeout: u64,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool_size: usize,
    keepalive_pool_name: Option<String>,
    base_dn: String,
    attribute: String,
    bind_dn: Option<String>,
    ldap_password: Option<String>,
    size_limit: u32,
    time_limit: u32,
    consumer_required: bool,
    header_type: String,
    realm: String,
}

struct LdapAuthAdvanced {
    endpoint: Endpoint,
    tls: TlsWanted,
    timeout: Duration,
    pool: Option<Pool>,
    conf: Conf,
}

/// Why a request is refused.
enum Failure {
    /// The client's credentials: 401.
    Refused(&'static str),
    /// The directory, or what it says of the gateway's own credentials: 500.
    Directory(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure::Directory(reason)
    }
}

fn address(uri: &str, use_ldaps: bool) -> Result<Endpoint, String> {
    address_of(uri, use_ldaps, if use_ldaps { 636 } else { 389 })
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Consumer {
        return Ok(());
    }
    let is_set = |name: &str| conf.get(name) == Some(&Value::Bool(true));
    if is_set("use_ldaps") && is_set("use_starttls") {
        return Err("use_ldaps and use_starttls are mutually exclusive".to_owned());
    }
    if conf.get("bind_dn").is_some() && conf.get("ldap_password").is_none() {
        return Err("ldap_password is required when bind_dn is set".to_owned());
    }
    match conf.get("ldap_uri").and_then(Value::as_str) {
        Some(uri) if !is_secret_reference(uri) => {
            address(uri, false).map(|_| ()).map_err(|reason| format!("property \"ldap_uri\": {reason}"))
        }
        _ => Ok(()),
    }
}

fn remarks(conf: &Value) -> Vec<String> {
    let is = |name: &str, value: bool| conf.get(name) == Some(&Value::Bool(value));
    let mut found = Vec::new();
    if conf.get("ldap_password").is_some() && conf.get("bind_dn").is_none() {
        found.push("ldap_password has no effect without bind_dn".to_owned());
    }
    if is("keepalive", false) && conf.get("keepalive_pool_name").is_some() {
        found.push("keepalive_pool_name has no effect without keepalive".to_owned());
    }
    if is("use_ldaps", false) && is("use_starttls", false) {
        found.push("passwords go to the directory in the clear without use_ldaps or use_starttls".to_owned());
    }
    found
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let endpoint = address(&conf.ldap_uri, conf.use_ldaps)?;
    let pool = conf.keepalive.then(|| {
        let name = conf.keepalive_pool_name.as_deref().unwrap_or_default();
        let way = (conf.use_ldaps, conf.use_starttls, conf.ssl_verify);
        Pool {
            // What differs in any of these is never shared, whatever the name.
            name: format!("{}:{} {way:?} {name}", endpoint.host, endpoint.port),
            lifetime: Duration::from_millis(conf.keepalive_timeout),
            size: conf.keepalive_pool_size,
        }
    });
    Ok(Arc::new(LdapAuthAdvanced {
        endpoint,
        tls: TlsWanted { verify: conf.ssl_verify, client: None },
        timeout: Duration::from_millis(conf.timeout),
        pool,
        conf,
    }))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    let dn = conf.get("user_dn").and_then(Value::as_str).ok_or("property \"user_dn\" is required")?;
    Ok(ConsumerKey { key: dn.to_owned(), data: Box::new(()) })
}

impl Plugin for LdapAuthAdvanced {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.authenticate(request))
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match credentials::of(request, &self.conf.header_type) {
            Err(reason) => Foresight::of_step(self.refused(request, reason).into()),
            Ok(_) => Foresight::maybe(401, Why::Asks),
        }
    }
}

impl LdapAuthAdvanced {
    async fn authenticate(&self, request: &mut Request) -> Verdict {
        // A client does not say itself what only the directory may; those about consumers are dropped before.
        request.assert_header("X-Authenticated-Groups", [] as [&str; 0]);
        let found = match credentials::of(request, &self.conf.header_type) {
            Ok((user, password)) => self.resolve(&user, &password).await,
            Err(reason) => Err(Failure::Refused(reason)),
        };
        let dn = match found {
            Ok(dn) => dn,
            Err(Failure::Refused(reason)) => return self.refused(request, reason),
            Err(Failure::Directory(reason)) => {
                error_log::log(Level::Error, format_args!("ldap-auth-advanced: {reason}"));
                return Err(Box::new(Reply::page(500)));
            }
        };
        if !self.conf.consumer_required {
            return Ok(());
        }
        let snapshot = request.snapshot.clone();
        match snapshot.consumers.find(PLUGIN.name, &dn) {
            Some(entry) => {
                request.attach(entry);
                Ok(())
            }
            None => self.refused(request, "no consumer has the user's DN"),
        }
    }

    fn refused(&self, request: &Request, reason: &str) -> Verdict {
        if auth::under_multi_auth(request) {
            return Err(Box::new(Reply::message(401, reason)));
        }
        error_log::log(Level::Warn, format_args!("ldap-auth-advanced: {reason}"));
        let scheme = if self.conf.header_type == "basic" { "Basic" } else { "ldap" };
        auth::rejected(scheme, &self.conf.realm, "Authorization required")
    }

    /// The DN of the user, whose password is right.
    async fn resolve(&self, user: &str, password: &str) -> Result<String, Failure> {
        let mut connection = self.connection().await?;
        let search = Search {
            base: &self.conf.base_dn,
            attribute: &self.conf.attribute,
            value: user,
            size_limit: self.conf.size_limit,
            time_limit: self.conf.time_limit,
        };
        let Found { code, dns } = self.within("search", connection.search(&search)).await?;
        match code {
            SUCCESS => {}
            SIZE_LIMIT_EXCEEDED => {
                return Err(Failure::Refused("the user is ambiguous: size limit exceeded"));
            }
            code => return Err(format!("search failed with result code {code}").into()),
        }
        let dn = match dns.as_slice() {
            [] => return Err(Failure::Refused("user not found")),
            // RFC 4513, 5.1.2: with an empty name a bind proves nothing.
            [dn] if dn.is_empty() => return Err("the user's entry has an empty DN".to_owned().into()),
            [dn] => dn.clone(),
            _ => return Err(Failure::Refused("the user is ambiguous: more than one entry")),
        };
        match self.within("bind of the user", connection.bind(&dn, password)).await? {
            SUCCESS => {}
            INVALID_CREDENTIALS => return Err(Failure::Refused("user authentication failed")),
            code => return Err(format!("bind of the user failed with result code {code}").into()),
        }
        if let Some(pool) = &self.pool {
            pool.keep(connection);
        }
        Ok(dn)
    }

    /// A connection bound as the one who searches. Each is bound again: one that was kept is bound as a user.
    async fn connection(&self) -> Result<Connection, String> {
        while let Some(mut kept) = self.pool.as_ref().and_then(Pool::take) {
            // The server may have closed it meanwhile.
            if let Ok(code) = self.within("bind", kept.bind(self.searcher().0, self.searcher().1)).await {
                return is_bound(code).map(|()| kept);
            }
        }
        let opened = Connection::open(&self.endpoint, &self.tls, self.conf.use_starttls);
        let mut connection = self.within("connection", opened).await?;
        let (dn, password) = self.searcher();
        is_bound(self.within("bind", connection.bind(dn, password)).await?)?;
        Ok(connection)
    }

    /// Anonymous without `bind_dn`.
    fn searcher(&self) -> (&str, &str) {
        match (&self.conf.bind_dn, &self.conf.ldap_password) {
            (Some(dn), Some(password)) => (dn, password),
            _ => ("", ""),
        }
    }

    async fn within<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let done = tokio::time::timeout(self.timeout, work).await;
        let done = done.map_err(|_| format!("{what}: timeout"))?;
        done.map_err(|reason| format!("{what}: {reason}"))
    }
}

fn is_bound(code: u32) -> Result<(), String> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(format!("the bind for the search is refused with result code {code}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports() {
        for (uri, ldaps, port) in
            [("a", false, 389), ("a", true, 636), ("a:1", true, 1), ("[::1]:2", false, 2)]
        {
            assert_eq!(address(uri, ldaps).map(|endpoint| endpoint.port), Ok(port), "{uri}");
        }
    }

    #[test]
    fn rules() {
        let check = |more: Value| {
            let mut conf = json!({"ldap_uri": "a", "base_dn": "b"});
            conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            check(&conf, SchemaKind::Plugin).err()
        };
        assert_eq!(check(json!({})), None);
        assert_eq!(
            check(json!({"use_ldaps": true, "use_starttls": true})).as_deref(),
            Some("use_ldaps and use_starttls are mutually exclusive")
        );
        assert_eq!(
            check(json!({"bind_dn": "cn=a"})).as_deref(),
            Some("ldap_password is required when bind_dn is set")
        );
        assert!(check(json!({"ldap_uri": "a:x"})).is_some());
    }
}
