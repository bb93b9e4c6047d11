//! `/users`: who may sign in with a password. Passwords are written and never shown.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_store::{StoreError, Users};
use tidegate_telemetry::clock::{self, RFC3339};

use super::body::read_body;
use crate::{
    admin_api::AdminApi,
    caller::{Caller, Origin},
    message::{Request, Response},
    permission::scope::Scope,
    role::Role,
    sessions::{password, token::secret},
    settings::Access,
};

const LONGEST_NAME: usize = 64;

/// Of a viewer who is shown which consumers requests are of.
const GRANT: &str = "consumer_names";

/// Of an editor or viewer: labels of the objects that they are for.
const SCOPE: &str = "scope";

/// Names are parts of paths and keys.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | '@');
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(fits) && !matches!(name, "." | "..")
}

/// The answer where the configuration provider keeps no users.
pub(super) fn without() -> Response {
    let message = "this configuration provider keeps no users; sign in with an admin key";
    Response::error(501, message)
}

fn failed(error: &StoreError) -> Response {
    match error {
        StoreError::Unsupported(_) => Response::error(400, &error.to_string()),
        _ => Response::error(503, &error.to_string()),
    }
}

/// A user's record. Blocks.
pub(super) fn find(users: &dyn Users, name: &str) -> Result<Option<Value>, Response> {
    let record = users.get(name).map_err(|error| failed(&error))?;
    // What cannot be read lets no user in.
    Ok(record.and_then(|record| serde_json::from_slice(&record).ok()))
}

/// Who a record is of, and its stamp.
pub(super) fn caller(name: &str, record: &Value) -> Option<(Caller, String)> {
    let role = Role::of(record.get("role")?.as_str()?)?;
    let stamp = record.get("stamp")?.as_str()?.to_owned();
    let scope = match record.get(SCOPE) {
        None | Some(Value::Null) => None,
        // One that cannot be read lets no one in: it would be everything.
        Some(scope) => Some(Arc::new(Scope::read(scope)?)),
    };
    let grant = role > Role::Viewer || record.get(GRANT) == Some(&Value::Bool(true));
    let sees_consumers = grant && scope.is_none();
    let caller =
        Caller { name: name.to_owned(), role, origin: Origin::User, sees_consumers, scope, session: None };
    Some((caller, stamp))
}

fn shown(name: &str, record: &Value) -> Value {
    let field = |field: &str| record.get(field).cloned().unwrap_or_default();
    json!({
        "name": name,
        "role": field("role"),
        SCOPE: field(SCOPE),
        GRANT: record.get("role") != Some(&json!("viewer")) || field(GRANT) == json!(true),
        "created": field("created"),
        "updated": field("updated"),
    })
}

/// Who a name is of, as far as sessions have to know.
fn person(name: &str) -> Caller {
    let name = name.to_owned();
    Caller {
        name,
        role: Role::Viewer,
        origin: Origin::User,
        sees_consumers: false,
        scope: None,
        session: None,
    }
}

/// What a `PUT` asks for.
struct Wanted {
    role: Role,
    scope: WantedScope,
    sees_consumers: bool,
    /// `None`: as before.
    password: Option<String>,
}

/// A scope that is not mentioned stays: without it the user would be for everything.
enum WantedScope {
    AsBefore,
    Everything,
    Labels(Scope),
}

impl WantedScope {
    /// As it is kept, with what the user had before.
    fn labels(&self, role: Role, before: Option<&Value>) -> Result<Option<Value>, String> {
        let kept = before.and_then(|before| before.get(SCOPE)).filter(|scope| !scope.is_null());
        match self {
            WantedScope::Labels(scope) => Ok(Some(scope.labels())),
            WantedScope::AsBefore if role == Role::Admin && kept.is_some() => Err(format!(
                "invalid user: role admin has no scope, and the user's is {}; send \"scope\": null to remove it",
                kept.unwrap_or(&Value::Null)
            )),
            WantedScope::AsBefore => Ok(kept.cloned()),
            WantedScope::Everything => Ok(None),
        }
    }
}

impl AdminApi {
    pub(super) async fn answer_users(&self, request: &Request, segments: &[&str]) -> Response {
        let answered = match (request.method.as_str(), segments) {
            ("GET", ["users"]) => self.list_users().await,
            ("GET", ["users", name]) => self.get_user((*name).to_owned()).await,
            ("PUT", ["users", name]) => self.put_user(request, (*name).to_owned()).await,
            ("DELETE", ["users", name]) => self.delete_user((*name).to_owned()).await,
            _ => Err(Response::error(404, "not found")),
        };
        answered.unwrap_or_else(|refused| refused)
    }

    async fn with_users<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Users) -> Result<T, Response> + Send + 'static,
    ) -> Result<T, Response> {
        let store = self.store.clone();
        let work = move || store.users().map_or_else(|| Err(without()), work);
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|_| Err(Response::error(503, "the users could not be read; see the error log")))
    }

    async fn list_users(&self) -> Result<Response, Response> {
        let records = self.with_users(|users| users.list().map_err(|error| failed(&error))).await?;
        let list: Vec<Value> = records
            .iter()
            .map(|(name, record)| shown(name, &serde_json::from_slice(record).unwrap_or_default()))
            .collect();
        Ok(Response::json(200, &json!({"total": list.len(), "list": list})))
    }

    async fn get_user(&self, name: String) -> Result<Response, Response> {
        let wanted = name.clone();
        let record = self.with_users(move |users| find(users, &wanted)).await?;
        let record = record.ok_or_else(not_found)?;
        Ok(Response::json(200, &shown(&name, &record)))
    }

    async fn put_user(&self, request: &Request, name: String) -> Result<Response, Response> {
        let refuse = |message: &str| Response::error(400, message);
        if !is_name(&name) {
            return Err(refuse("invalid name: 1 to 64 letters, digits and . _ - @"));
        }
        if let Access::Keys(keys) = &self.settings.access
            && keys.iter().any(|key| key.name == name)
        {
            return Err(refuse(
                "an admin key of config.yaml has this name; the history could not tell them apart",
            ));
        }
        let wanted = wanted(&read_body(request)?.unwrap_or_default()).map_err(|reason| refuse(&reason))?;
        let caller = person(&name);
        let store = self.store.clone();
        // Hashes, so it takes its turn.
        let work = move || store.users().map_or_else(|| Err(without()), |users| put(users, &name, &wanted));
        let response = self.sessions.passwords.run(work).await??;
        // Signed in with the old password, or with more rights.
        self.sessions.end_all(&caller);
        Ok(response)
    }

    async fn delete_user(&self, name: String) -> Result<Response, Response> {
        let caller = person(&name);
        let deleted = self.with_users(move |users| users.delete(&name).map_err(|error| failed(&error))).await;
        // In any case: where the store takes no writes, at least no one stays.
        self.sessions.end_all(&caller);
        let known = deleted?;
        match known {
            true => {
                Ok(Response::json(200, &json!({"deleted": "1", "key": format!("/users/{}", caller.name)})))
            }
            false => Err(not_found()),
        }
    }
}

fn not_found() -> Response {
    Response::json(404, &json!({"message": "Key not found"}))
}

fn wanted(body: &Value) -> Result<Wanted, String> {
    let fields = body.as_object().ok_or("invalid user: should be an object")?;
    if let Some(unknown) =
        fields.keys().find(|name| !matches!(name.as_str(), "role" | "password" | SCOPE | GRANT))
    {
        return Err(format!("invalid user: unknown field {unknown}"));
    }
    let role = fields.get("role").and_then(Value::as_str).and_then(Role::of);
    let role = role.ok_or("invalid user: role should be admin, editor or viewer")?;
    let sees_consumers = match fields.get(GRANT) {
        None => false,
        Some(Value::Bool(granted)) => *granted,
        Some(_) => return Err(format!("invalid user: {GRANT} should be true or false")),
    };
    let scope = match fields.get(SCOPE) {
        None => WantedScope::AsBefore,
        Some(Value::Null) => WantedScope::Everything,
        Some(_) if role == Role::Admin => {
            return Err("invalid user: role admin has no scope, as who may write users can reach everything".to_owned());
        }
        Some(scope) => WantedScope::Labels(Scope::read(scope).ok_or(
            "invalid user: scope should be an object of labels, like {\"team\": \"payments\"}; null: all objects",
        )?),
    };
    let password = match fields.get("password") {
        None => None,
        Some(Value::String(text)) => match password::fault(text) {
            None => Some(text.clone()),
            Some(fault) => return Err(format!("invalid user: password {fault}")),
        },
        Some(_) => return Err("invalid user: password should be a text".to_owned()),
    };
    Ok(Wanted { role, scope, sees_consumers, password })
}

/// Writes a user's record with another password, and returns it.
pub(super) fn with_password(
    users: &dyn Users,
    name: &str,
    record: &Value,
    password: &str,
) -> Result<Value, Response> {
    let unavailable = |reason: String| Response::error(503, &reason);
    let mut record = record.clone();
    record["password"] = password::hash(password).map_err(unavailable)?;
    record["updated"] = json!(clock::utc(clock::unix_ms(), RFC3339));
    record["stamp"] = json!(secret().map_err(unavailable)?);
    users.put(name, record.to_string().as_bytes()).map_err(|error| failed(&error))?;
    Ok(record)
}

fn put(users: &dyn Users, name: &str, wanted: &Wanted) -> Result<Response, Response> {
    let before = find(users, name)?;
    let now = json!(clock::utc(clock::unix_ms(), RFC3339));
    let kept = |field: &str| before.as_ref().and_then(|record| record.get(field)).cloned();
    let unavailable = |reason: String| Response::error(503, &reason);
    let hashed = match &wanted.password {
        Some(password) => password::hash(password).map_err(unavailable)?,
        None => kept("password").ok_or_else(|| Response::error(400, "a new user needs a password"))?,
    };
    let scope = wanted.scope.labels(wanted.role, before.as_ref());
    let scope = scope.map_err(|message| Response::error(400, &message))?;
    let mut record = Map::new();
    record.insert("role".to_owned(), json!(wanted.role.name()));
    if let Some(scope) = scope {
        record.insert(SCOPE.to_owned(), scope);
    }
    record.insert(GRANT.to_owned(), json!(wanted.sees_consumers));
    record.insert("password".to_owned(), hashed);
    record.insert("created".to_owned(), kept("created").unwrap_or_else(|| now.clone()));
    record.insert("updated".to_owned(), now);
    record.insert("stamp".to_owned(), json!(secret().map_err(unavailable)?));
    let record = Value::Object(record);
    users.put(name, record.to_string().as_bytes()).map_err(|error| failed(&error))?;
    Ok(Response::json(if before.is_some() { 200 } else { 201 }, &shown(name, &record)))
}
