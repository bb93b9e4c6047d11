//! What a page is: the content of the location that takes its path.

use serde_json::{Map, Value};

use super::entry::{Fields, Page};
use crate::{
    Report,
    nginx::{at::At, branch::Branch, fallback::redirected, made::Stop, variables::Variables},
};

/// Pages stand in the configuration.
const MAX_PAGE_BYTES: usize = 64 << 10;

/// What a page may need, or what does nothing to it.
const OF_PAGES: [&str; 7] =
    ["client-control", "fault-injection", "gzip", "real-ip", "redirect", "response-rewrite", "static-files"];

pub(super) fn of(target: &str, at: &At<'_, '_>, variables: &Variables, report: &mut Report) -> Page {
    match redirected(&At { is_page: true, ..*at }, target, variables, report) {
        Ok(branch) => page_of(branch, target, at),
        Err(Stop::Closed(why)) => Page::Unknown(why),
        Err(Stop::Split(map)) => Page::Unknown(format!("`${map}` is made by a map")),
    }
}

fn page_of(branch: Branch, target: &str, at: &At) -> Page {
    if branch.closed.is_some() || branch.upstream.is_some() {
        return Page::Content(Box::new(branch));
    }
    // nginx asks guards of the page's location again.
    if let Some(other) = branch.plugins.keys().find(|name| !OF_PAGES.contains(&name.as_str())) {
        return Page::Unknown(format!("its location needs plugin {other}"));
    }
    let fields = Fields(branch.plugins.get("response-rewrite").cloned());
    if let Some(abort) = branch.plugins.get("fault-injection").and_then(|fault| fault.get("abort")) {
        let own = abort.get("http_status").and_then(Value::as_u64).unwrap_or(500) as u16;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        return match abort.get("body") {
            Some(body) => {
                let kind = text(abort.pointer("/headers/Content-Type"));
                Page::Text { own, body: text(Some(body)), kind, fields, is_file: false }
            }
            None => Page::Bare(own, fields),
        };
    }
    if let Some(redirect) = branch.plugins.get("redirect") {
        return match redirect.get("uri").and_then(Value::as_str).filter(|uri| !uri.contains('$')) {
            Some(uri) if redirect["ret_code"] == 302 => Page::Url(uri.to_owned()),
            _ => Page::Unknown("its location redirects".to_owned()),
        };
    }
    match branch.plugins.get("static-files").and_then(Value::as_object) {
        Some(conf) => file(conf, target, at, fields).unwrap_or_else(Page::Unknown),
        None => Page::Unknown("its location is not understood".to_owned()),
    }
}

/// The current text of a file.
fn file(conf: &Map<String, Value>, target: &str, at: &At, fields: Fields) -> Result<Page, String> {
    let tries = conf.get("try_files").and_then(Value::as_array).and_then(|tries| tries.first()?.as_str());
    let path = match tries {
        None | Some("$uri") => target.split('?').next().unwrap_or_default(),
        Some(name) => name,
    };
    if !path.starts_with('/') || path.contains('$') || path.ends_with('/') {
        return Err("its file is unknown".to_owned());
    }
    let name = match conf.get("strip_prefix").and_then(Value::as_str) {
        Some(prefix) => path.strip_prefix(prefix).unwrap_or(path),
        None => path,
    };
    let root = conf.get("root").and_then(Value::as_str).unwrap_or_default();
    let name = format!("{}/{}", root.trim_end_matches('/'), name.trim_start_matches('/'));
    let body = at.context.files.read(&name)?;
    if body.len() > MAX_PAGE_BYTES {
        return Err(format!("{name} has more than {MAX_PAGE_BYTES} bytes"));
    }
    let ending = name.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    let kind = ending.and_then(|ending| conf.get("types")?.get(ending.to_lowercase()));
    let kind = kind.or_else(|| conf.get("default_type")).and_then(Value::as_str).unwrap_or("text/plain");
    Ok(Page::Text { own: 200, body, kind: kind.to_owned(), fields, is_file: true })
}
