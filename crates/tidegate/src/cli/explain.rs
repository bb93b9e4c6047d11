//! `tidegate explain METHOD URL`: which route a request would take and why, and what would run.

mod text;

use clap::Args;
use serde_json::{Map, Value, json};
use tidegate_config::Provider;

use super::{admin_api, daemon, place::SharedOptions, printable::printable_lines, stdout};
use crate::boot;

#[derive(Args)]
pub(super) struct Arguments {
    /// HTTP method, such as GET
    method: String,
    /// `http://HOST/PATH?QUERY`, or only a path
    url: String,
    /// Header of the request, as "Name: value"; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// Body of the request, for conditions that inspect it
    #[arg(short, long = "data", value_name = "BODY")]
    data: Option<String>,
    /// Address of the client
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    client_ip: String,
    /// Consumer to authenticate as
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Read the stored configuration instead of asking the running gateway
    #[arg(long)]
    offline: bool,
    /// Print JSON, as returned by POST /apisix/admin/explain
    #[arg(long)]
    json: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let mut settings = place.load()?.settings;
    let question = question(arguments)?;
    if arguments.offline
        && settings.provider == Provider::Embedded
        && let Some(pid) = daemon::serving(place)?
    {
        let instead = match settings.admin.https {
            true => "ask it with POST /apisix/admin/explain",
            false => "leave --offline out, and it answers",
        };
        anyhow::bail!("process {pid} serves from this folder and has its database open; {instead}");
    }
    // A gateway that reads files has no Admin API; the file says the same.
    let from_file = matches!(settings.provider, Provider::Yaml | Provider::Json);
    let explanation = if arguments.offline || from_file {
        boot::explain_offline(settings, &question)?
    } else {
        settings.read_admin_keys().map_err(anyhow::Error::msg)?;
        admin_api::post(&settings, "explain", &question)?
    };
    if arguments.json {
        stdout::line(&printable_lines(&serde_json::to_string_pretty(&explanation)?));
    } else {
        stdout::print(&text::render(&explanation));
    }
    Ok(())
}

fn question(arguments: &Arguments) -> anyhow::Result<Value> {
    let mut headers: Map<String, Value> = Map::new();
    for field in &arguments.headers {
        let Some((name, value)) = field.split_once(':') else {
            anyhow::bail!("-H {field:?}: should be \"Name: value\"");
        };
        let values = headers.entry(name.trim().to_owned()).or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(json!(value.trim()));
        }
    }
    let mut question = json!({
        "method": arguments.method, "url": arguments.url, "headers": headers, "client_ip": arguments.client_ip,
    });
    let optional = [("consumer", &arguments.consumer), ("body", &arguments.data)];
    for (name, value) in optional {
        if let (Some(value), Some(fields)) = (value, question.as_object_mut()) {
            fields.insert(name.to_owned(), json!(value));
        }
    }
    Ok(question)
}
