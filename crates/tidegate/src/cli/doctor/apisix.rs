//! "Can I move?": what of a configuration of Apache APISIX would not work here.

use std::{fs, path::Path};

use anyhow::Context;
use serde_json::{Value, json};

use super::{check::Check, reach, resources};
use crate::{
    boot::trial,
    cli::temporary::{Home, settings_of},
};

/// An apisix.yaml. What it names is not asked: it may be read on another machine.
pub(super) fn of_file(file: &Path) -> anyhow::Result<Vec<Check>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let document = match tidegate_config::yaml::to_value(&text) {
        Ok(document @ Value::Object(_)) => document,
        Ok(_) => {
            return Ok(vec![Check::bad(
                "file",
                format!("{shown} has no lists such as routes"),
                "give an apisix.yaml",
            )]);
        }
        Err(fault) => {
            return Ok(vec![Check::of_message(
                "file",
                &format!("{shown}:{fault}"),
                "correct the place that it names",
            )]);
        }
    };
    let problems = resources::problems(&document, &[]);
    let mut checks: Vec<Check> =
        problems.iter().map(|problem| Check::of_message("object", problem, resources::CORRECT)).collect();
    let (all, bad) = (resources::count(&document), checks.len());
    checks.insert(0, Check::good("objects", format!("{} of {all} can be used", all.saturating_sub(bad))));
    Ok(checks)
}

/// What is in etcd, read as a gateway would and left alone. Objects that cannot be used are named on standard error.
pub(super) fn of_etcd(url: &str, prefix: &str) -> anyhow::Result<Vec<Check>> {
    let mut checks = vec![reach::etcd(url)];
    let home = Home::create()?;
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr())?.port();
    let etcd = json!({"host": [url], "prefix": prefix, "startup_retry": 1});
    let config = format!(
        "apisix: {{node_listen: [{{ip: 127.0.0.1, port: {port}}}], ssl: {{enable: false}}, enable_admin: false, \
         enable_control: false}}\n\
         deployment: {{role: data_plane, role_data_plane: {{config_provider: etcd}}, etcd: {etcd}}}\n\
         plugin_attr: {{prometheus: {{enable_export_server: false}}}}\n"
    );
    home.write(&config, "routes: []\n#END\n")?;
    match trial::run(settings_of(home.path(), None)?) {
        Ok(outcome) if outcome.problems == 0 => {
            checks.push(Check::good("objects", format!("{} can be used", outcome.objects)));
        }
        Ok(outcome) => checks.push(Check::bad(
            "objects",
            format!("{} cannot be used as they are: see above", outcome.problems),
            "their places answer 503 here until they are corrected",
        )),
        Err(error) => checks.push(Check::of_message(
            "objects",
            &format!("{error:#}"),
            "see whether --etcd and --etcd-prefix are right",
        )),
    }
    Ok(checks)
}
