//! What is asked for: URLs, methods, headers and bodies from the command line and from `--urls-from`.

use std::{path::Path, sync::Arc};

use tidegate_bench::{Problem, plan::options, request::RequestSpec, target::Origin};

use super::{body::body, events, files, grpc, load::Load, websocket};

pub(super) struct Wanted {
    /// The one server of all URLs.
    pub origin: Origin,
    pub requests: Vec<RequestSpec>,
    /// See [`tidegate_bench::plan::Options::order`].
    pub order: Arc<[u32]>,
}

/// One line of a list.
struct Line {
    weight: u64,
    method: String,
    url: String,
}

pub(super) fn wanted(arguments: &Load) -> Result<Wanted, Problem> {
    // A message is not a body.
    let body = if arguments.grpc || arguments.websocket { None } else { body(arguments)? };
    let posts = body.is_some() || arguments.grpc;
    let usual = arguments.method.clone().unwrap_or(if posts { "POST".into() } else { "GET".into() });
    let headers: Result<Vec<_>, _> = arguments.headers.iter().map(|line| header(line)).collect();
    let headers = headers?;
    if arguments.cookies && headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cookie")) {
        return Err(Problem::usage("-H 'Cookie: ...' and --cookies both write that field; leave one out"));
    }
    let given = |url: &String| Line { weight: 1, method: usual.clone(), url: url.clone() };
    let mut lines: Vec<Line> = arguments.urls.iter().map(given).collect();
    if let Some(path) = &arguments.urls_from {
        lines.extend(list(path, &usual)?);
    }
    let mut origin: Option<Origin> = None;
    let (mut requests, mut weights) = (Vec::new(), Vec::new());
    for (at, line) in lines.into_iter().enumerate() {
        let path = path(&line.url, &mut origin)?;
        // The first URL of a list may only name the server.
        if at == 0 && arguments.urls_from.is_some() && !arguments.urls.is_empty() {
            continue;
        }
        weights.push(line.weight);
        requests.push(RequestSpec {
            method: line.method,
            path,
            headers: headers.clone(),
            body: body.clone(),
        });
    }
    let origin = origin.ok_or_else(|| Problem::usage("give a URL, such as http://127.0.0.1:9080/"))?;
    if arguments.grpc {
        requests.iter_mut().try_for_each(grpc::into_call)?;
    }
    if arguments.sse {
        requests.iter_mut().try_for_each(events::into_stream)?;
    }
    if arguments.websocket {
        websocket::check(arguments, &requests)?;
        requests.iter_mut().try_for_each(websocket::into_upgrade)?;
    }
    Ok(Wanted { origin, requests, order: options::order(&weights)? })
}

/// The path of a URL, or of a path on the server of the URLs before.
fn path(url: &str, origin: &mut Option<Origin>) -> Result<String, Problem> {
    if origin.is_some() && url.starts_with('/') {
        return Ok(url.to_owned());
    }
    let (found, path) = Origin::parse(url)?;
    if origin.as_ref().is_some_and(|first| *first != found) {
        return Err(Problem::usage(format!(
            "{url} is on another server than the first URL; measure one server at a time"
        )));
    }
    *origin = Some(found);
    Ok(path)
}

fn list(file: &Path, usual: &str) -> Result<Vec<Line>, Problem> {
    let text = files::read(file)?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, text)| line(text, usual, &format!("{}:{}", file.display(), at + 1))).collect()
}

/// `[weight=N] [METHOD] URL`; `place` is where it stands.
fn line(text: &str, usual: &str, place: &str) -> Result<Line, Problem> {
    let (weight, text) = match text.strip_prefix("weight=") {
        None => (1, text),
        Some(rest) => {
            let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let weight = number.parse().ok().filter(|weight| *weight > 0).ok_or_else(|| {
                Problem::usage(format!(
                    "{place}: weight={number} is not a whole number above 0; write weight=3 GET /path"
                ))
            })?;
            (weight, rest.trim())
        }
    };
    if text.is_empty() {
        return Err(Problem::usage(format!("{place}: a URL or path is missing; write weight=3 GET /path")));
    }
    Ok(match text.split_once(' ') {
        Some((method, url)) if method.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            Line { weight, method: method.to_owned(), url: url.trim().to_owned() }
        }
        _ => Line { weight, method: usual.to_owned(), url: text.to_owned() },
    })
}

fn header(line: &str) -> Result<(String, String), Problem> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| Problem::usage(format!("-H {line:?}: a header is written 'Name: value'")))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
