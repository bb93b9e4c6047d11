//! `PUT /import`: a whole configuration in the form of apisix.yaml, all of it or nothing.

mod plan;
mod source;

use serde_json::{Map, Value, json};
use tidegate_model::strays::{self, is_for_anchors};
use tidegate_model::{
    Kind,
    check::{NO_ID, is_id},
    nearest,
    schema::lua,
};
use tidegate_store::COLLECTIONS;

use self::{
    plan::{Items, Mode, plan},
    source::{Kept, Source},
};
use super::{
    document,
    target::Target,
    transaction::{ATTEMPTS, Order, Stage, busy, change::Fault, refused},
};
use crate::{
    AdminApi,
    api::body::IMPORT_LIMIT,
    at_length::at_length,
    message::{Request, RequestBody, Response},
};

pub(super) async fn run(api: &AdminApi, request: &Request) -> Result<Response, Response> {
    let order = Order::of(api, request)?;
    let mode = match request.argument("mode").as_deref() {
        None | Some("merge") => Mode::Merge,
        Some("replace") => Mode::Replace,
        Some(_) => return Err(Response::error(400, "invalid argument mode: should be merge or replace")),
    };
    let dry_run = match request.argument("dry_run").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Response::error(400, "invalid argument dry_run: should be true or false")),
    };
    let source = Source::of(request)?;
    if source.is_some() && mode == Mode::Replace {
        return Err(Response::error(400, "argument source goes with mode=merge only"));
    }
    let mut order = Order { dry_run, ..order };
    order.author.note = Some(match (&source, mode) {
        (Some(source), _) => source.history_note(),
        (None, Mode::Merge) => "import, merge".to_owned(),
        (None, Mode::Replace) => "import, replace".to_owned(),
    });
    // Reading megabytes takes a while. The tree is freed by the thread that made it, which can give its memory back.
    let items = at_length(|| {
        let document = parse(request)?;
        read(api, &document).map_err(|faults| refused("import", &faults))
    })?;
    for _ in 0..ATTEMPTS {
        let state = order.current(api)?;
        let revision = state.revision;
        let (wanted, kept) = match &source {
            Some(source) => source.plan(api, &state, &items).await?,
            None => (at_length(|| plan(&state, &items, mode)), Kept::default()),
        };
        let stage = at_length(|| Stage::for_state(api, &order.rights, state, wanted));
        let mut stage = stage.map_err(|faults| refused("import", &faults))?;
        stage.keeps(kept.changed, kept.left);
        if let Some(response) = order.carry_out(api, &stage, revision).await? {
            return Ok(response);
        }
    }
    Err(busy())
}

/// YAML, or with a content type of JSON that.
fn parse(request: &Request) -> Result<Map<String, Value>, Response> {
    let bytes = match &request.body {
        RequestBody::TooLarge(size) => {
            let message = format!("the body has {size} bytes; an import can have at most {IMPORT_LIMIT}");
            return Err(Response::error(400, &message));
        }
        RequestBody::Bytes(bytes) => bytes,
    };
    let json = request.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    let read: Result<Value, String> = if json {
        tidegate_model::json::parse(bytes).map_err(|fault| fault.to_string())
    } else {
        yaml(bytes)
    };
    let read = read.map(|mut value| {
        lua::whole_numbers(&mut value);
        value
    });
    let refuse = |reason: &str| Response::error(400, &format!("invalid request body: {reason}"));
    match read {
        Ok(Value::Object(document)) => Ok(document),
        Ok(_) => Err(refuse("expected keys like routes and upstreams")),
        Err(reason) => Err(refuse(&reason)),
    }
}

fn yaml(bytes: &[u8]) -> Result<Value, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    if !text.trim_end().ends_with(document::END) {
        return Err("missing valid end flag: the last line should be #END".to_owned());
    }
    match tidegate_config::yaml::to_value(text).map_err(|fault| fault.to_string())? {
        // Nothing but comments: an empty configuration.
        Value::Null => Ok(json!({})),
        document => Ok(document),
    }
}

/// The objects of a document. Anything that is not understood is a fault: an import is all or nothing.
fn read(api: &AdminApi, document: &Map<String, Value>) -> Result<Items, Vec<Fault>> {
    let (mut items, mut faults) = (Items::new(), Vec::new());
    let fault = |path: String, error: &str| Fault { index: 0, path, error: error.to_owned() };
    for (name, list) in document {
        let path = format!("/{name}");
        let Some((_, kind)) = COLLECTIONS.iter().find(|(known, _)| known == name) else {
            // Versions mean something to API-driven gateways only.
            if name == "plugins" {
                faults.push(fault(path, "plugins are enabled in config.yaml; remove this list"));
            } else if !name.ends_with("_conf_version") && !is_for_anchors(name) {
                let hint = nearest::hint(name, COLLECTIONS.iter().map(|(known, _)| *known));
                faults.push(fault(path, &format!("unknown list{hint}")));
            }
            continue;
        };
        let list = match list {
            Value::Array(list) => list,
            _ => {
                faults.push(fault(path, &strays::not_a_list(name)));
                continue;
            }
        };
        for (index, item) in list.iter().enumerate() {
            match read_item(api, *kind, index, item) {
                Ok((key, _)) if items.contains_key(&key) => {
                    let error = "is duplicated".to_owned();
                    faults.push(Fault { index, path: format!("/{name}/{}", key.1), error });
                }
                Ok((key, value)) => {
                    items.insert(key, value);
                }
                Err(error) => faults.push(Fault { index, path: path.clone(), error }),
            }
        }
    }
    if faults.is_empty() { Ok(items) } else { Err(faults) }
}

/// Named as the file provider names it; the value as the Admin API stores it.
fn read_item(
    api: &AdminApi,
    kind: Kind,
    index: usize,
    item: &Value,
) -> Result<((Kind, std::sync::Arc<str>), Value), String> {
    let mut fields = item.as_object().ok_or("should be an object")?.clone();
    fields.shift_remove("modifiedIndex");
    let id = fields.shift_remove("id").filter(|id| !id.is_null());
    let id = match id.as_ref().or_else(|| fields.get("username").filter(|_| kind == Kind::Consumer)) {
        Some(id) if is_id(id) => lua::text(id),
        Some(_) => return Err(format!("[{index}]: {NO_ID}")),
        None => format!("arr_{}", index + 1),
    };
    let kind = if kind == Kind::Consumer && id.contains("/credentials/") { Kind::Credential } else { kind };
    if kind == Kind::StreamRoute && !api.settings.stream {
        return Err("stream mode is disabled, can not add stream routes".to_owned());
    }
    if kind == Kind::Secret && !id.contains('/') {
        return Err(format!("{id}: the id of a secret should be MANAGER/ID"));
    }
    if kind == Kind::Consumer && fields.get("username").map(lua::text).as_deref() != Some(&id) {
        return Err(format!("{id}: the id of a consumer should be its username"));
    }
    if let Some(Value::Object(plugins)) = fields.get_mut("plugins") {
        plugins.values_mut().filter(|conf| conf.is_null()).for_each(|conf| *conf = json!({}));
    }
    let own = match kind {
        Kind::Consumer => None,
        Kind::Credential => Target::of(kind, &id).id,
        _ => Some(id.clone()),
    };
    let mut named = Map::new();
    if let Some(own) = own {
        named.insert("id".to_owned(), json!(own));
    }
    named.extend(fields);
    let mut value = Value::Object(named);
    if let Some(keyring) = &api.settings.keyring {
        keyring.decrypt_private_keys(kind, &mut value);
    }
    Ok(((kind, id.into()), value))
}
