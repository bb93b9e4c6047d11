//! Lets requests through as a Casbin model and policy say: user, path and method against rules and roles.
//!
//! The evaluator is our own: the library for Rust compiles regular expressions with each request, and panics on some policies and
//! on some texts of clients. A model that asks for more than is here is refused when it is written.

mod functions;
mod matcher;
mod model;
mod policy;
mod rules;

use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use rules::{Judgement, Rules};
use serde::Deserialize;
use serde_json::Value;
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, host,
};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    auth,
    conf::typed,
    spent::{self, Mark},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "authz-casbin",
    version: 0.1,
    priority: 2560,
    schema: include_str!("authz_casbin.json"),
    metadata_schema: Some(include_str!("authz_casbin.metadata.json")),
    phases: Phases::REWRITE,
    headers: &[("username", Text::Name)],
    check,
    remarks,
    build,
    for_admins: Some("it reads files of the machine"),
    ..PluginDef::DEFAULT
};

/// Of a model or policy that is a file.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// More rules than these are looked at in several turns.
const ROWS_AT_ONCE: usize = 1024;

#[derive(Deserialize)]
struct Conf {
    model_path: Option<String>,
    policy_path: Option<String>,
    model: Option<String>,
    policy: Option<String>,
    #[serde(default)]
    username: String,
}

struct AuthzCasbin {
    /// `Err`: files that cannot be read, so that each request is refused.
    rules: Result<Arc<Rules>, String>,
    /// The field that names the user.
    username: String,
}

/// Configurations with the same model and policy share what is made of them.
static MADE: Mutex<Option<HashMap<Mark, Weak<Rules>>>> = Mutex::new(None);

fn shared(model: &str, policy: &str) -> Result<Arc<Rules>, String> {
    let mark = spent::mark(&[model.as_bytes(), policy.as_bytes()]);
    let known = MADE.lock().as_ref().and_then(|made| made.get(&mark)?.upgrade());
    if let Some(rules) = known {
        return Ok(rules);
    }
    let rules = Arc::new(Rules::new(model, policy)?);
    let mut made = MADE.lock();
    let made = made.get_or_insert_default();
    made.retain(|_, rules| rules.strong_count() > 0);
    made.insert(mark, Arc::downgrade(&rules));
    Ok(rules)
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    match (text("model"), text("policy")) {
        (Some(model), Some(policy)) if !is_secret_reference(model) && !is_secret_reference(policy) => {
            Rules::new(model, policy).map(|_| ())
        }
        _ => Ok(()),
    }
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let rules = match (&conf.model_path, &conf.policy_path, &conf.model, &conf.policy) {
        // As in APISIX, files may come later than what names them; then the object is written or the gateway started again.
        (Some(model), Some(policy), ..) => of_files(model, policy),
        (_, _, Some(model), Some(policy)) => Ok(shared(model, policy)?),
        _ => {
            let of_metadata = context.metadata.map(typed::<Conf>).transpose()?;
            match of_metadata.as_ref().map(|conf| (&conf.model, &conf.policy)) {
                Some((Some(model), Some(policy))) => Ok(shared(model, policy)?),
                // As APISIX says when there is no metadata.
                _ => return Err("value should match only one schema, but matches none".to_owned()),
            }
        }
    };
    Ok(Arc::new(AuthzCasbin { rules, username: conf.username }))
}

fn of_files(model: &str, policy: &str) -> Result<Arc<Rules>, String> {
    shared(&read(model)?, &read(policy)?)
}

fn remarks(conf: &Value) -> Vec<String> {
    let path = |name: &str| conf.get(name).and_then(Value::as_str);
    let files = path("model_path").zip(path("policy_path"));
    let fault = files.and_then(|(model, policy)| of_files(model, policy).err());
    fault.map(|reason| format!("every request is refused: {reason}")).into_iter().collect()
}

fn read(path: &str) -> Result<String, String> {
    let place = host().map_or_else(|| path.into(), |host| host.prefix.join(path));
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    let mut text = String::new();
    let file = File::open(&place).map_err(failed)?;
    let bytes = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    match bytes as u64 > MAX_FILE_BYTES {
        true => Err(format!("{}: more than {MAX_FILE_BYTES} bytes", place.display())),
        false => Ok(text),
    }
}

impl Plugin for AuthzCasbin {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let rules = match &self.rules {
            Ok(rules) => rules,
            Err(reason) => return Step::from(undecided(reason)),
        };
        let user = match auth::credentials(request, &self.username) {
            Ok(user) => String::from_utf8_lossy(user.unwrap_or(b"anonymous")).into_owned(),
            Err(reason) => return Step::from(denied(&reason)),
        };
        let path = String::from_utf8_lossy(&request.unambiguous_path()).into_owned();
        let method = String::from_utf8_lossy(request.head.method.as_bytes()).into_owned();
        if rules.rows() <= ROWS_AT_ONCE {
            let mut judgement = Judgement::default();
            let values = [user.as_str(), &path, &method];
            let done = rules.evaluate(values, ROWS_AT_ONCE, &mut judgement, &request.search_time);
            return Step::from(verdict(done.map(|_| rules.allows(&judgement))));
        }
        Step::wait(async move {
            let mut judgement = Judgement::default();
            let values = [user.as_str(), &path, &method];
            loop {
                match rules.evaluate(values, ROWS_AT_ONCE, &mut judgement, &request.search_time) {
                    Ok(false) => tokio::task::yield_now().await,
                    done => return verdict(done.map(|_| rules.allows(&judgement))),
                }
            }
        })
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

fn verdict(allowed: Result<bool, &'static str>) -> Verdict {
    match allowed {
        Ok(true) => Ok(()),
        Ok(false) => denied("no rule allows the request"),
        Err(reason) => undecided(reason),
    }
}

fn undecided(reason: &str) -> Verdict {
    error_log::log(Level::Error, format_args!("authz-casbin: {reason}"));
    Err(Box::new(Reply::page(503)))
}

fn denied(reason: &str) -> Verdict {
    error_log::log(Level::Info, format_args!("authz-casbin: denied: {reason}"));
    Err(Box::new(Reply::message(403, "Access Denied")))
}
