//! Plugins of users in other languages. They live in a plugin runner, a process that is asked over a Unix socket in
//! APISIX's protocol: ext-plugin-pre-req, ext-plugin-post-req and ext-plugin-post-resp share it.

mod call;
mod connection;
mod frame;
mod messages;
mod places;
pub(crate) mod process;
mod response;
mod rewriting;
mod runner_time;
mod table;

use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Phases, PluginDef, Request, Verdict, host};

use self::{
    call::Failure,
    messages::Action,
    rewriting::{AskedRequest, rewrite, stopped},
};
pub(crate) use self::{call::Hook, response::Response};

/// What the declarations of the three have in common.
pub(crate) const SHARED: PluginDef = PluginDef {
    version: 0.1,
    phases: Phases::NONE,
    schema: include_str!("ext_plugin.json"),
    remarks,
    ..PluginDef::DEFAULT
};

/// Whether config.yaml has a runner.
fn remarks(conf: &Value) -> Vec<String> {
    let settings = host().and_then(|host| host.settings.get("ext-plugin"));
    let has = |name: &str| settings.and_then(|settings| settings.get(name)).is_some();
    if host().is_none() || has("cmd") || has("path_for_test") {
        return Vec::new();
    }
    let follows = match conf.get("allow_degradation") {
        Some(Value::Bool(true)) => "requests go on without it",
        _ => "requests are answered 503",
    };
    vec![format!("config.yaml has no ext-plugin.cmd, which starts the plugin runner: {follows}")]
}

/// Reads a configuration of the plugin.
pub(crate) fn hook(plugin: &str, conf: &Value, context: &BuildContext) -> Result<Hook, String> {
    Hook::new(plugin, conf, context)
}

/// Asks the runner what is to become of the request.
pub(crate) async fn on_request(hook: &Hook, request: &mut Request) -> Verdict {
    let Some(answer) = hook.ask(request, &AskedRequest).await? else { return Ok(()) };
    let malformed = || hook.unanswered("the plugin runner sent a malformed message");
    let Ok(action) = messages::action(&answer) else { return malformed() };
    match action {
        Action::Nothing => Ok(()),
        Action::Stop(changed) => match stopped(&changed) {
            Ok(reply) => Err(Box::new(reply)),
            Err(reason) => hook.unanswered(&reason),
        },
        Action::Rewrite(wanted) => match rewrite(request, &wanted).await {
            Ok(()) => Ok(()),
            Err(Failure::Refused(reply)) => Err(reply),
            Err(Failure::Failed(reason)) => hook.unanswered(&reason),
            Err(Failure::Stale | Failure::UnknownToken) => malformed(),
        },
    }
}
