//! Limits GraphQL queries by what they cost: by their depth, or by how much data they ask for.
//!
//! Costs are taken from quotas in limit-count's way. How much data a query asks for is in the cost decorations of the service, which
//! name types: so the service's schema is asked for once.

mod cost;
mod depth;
mod introspection;
mod schema;

use std::sync::Arc;

use cost::{Basis, Strategy};
use introspection::Introspection;
use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Why, aside,
    foresight::at_once, step::Verdict,
};
use tidegate_protocol::Method;
use tidegate_telemetry::error_log::{self, Level};

use super::limit_count::{self, LimitCount};
use crate::common::{
    conf::typed,
    graphql_request::{self, Question},
    limit_key, number,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "graphql-limit-count",
    version: 0.1,
    priority: 1004,
    schema: include_str!("graphql_limit_count.json"),
    metadata_schema: Some(include_str!("graphql_limit_count.metadata.json")),
    encrypt_fields: &["redis_password", "sentinel_password", "introspection_headers"],
    phases: Phases::ACCESS,
    explain: limit_count::explain,
    check,
    headers: &[("rules[].header_prefix", Text::Name), ("introspection_headers", Text::Fields)],
    metadata_headers: &[
        ("limit_header", Text::Name),
        ("remaining_header", Text::Name),
        ("reset_header", Text::Name),
    ],
    remarks: |conf| limit_key::remarks(conf, PLUGIN.schema, &[]),
    of_consumer: limit_key::of_consumer,
    build,
    ..PluginDef::DEFAULT
};

const COST_HEADER: &str = "X-Graphql-Query-Cost";

#[derive(Deserialize)]
struct Conf {
    cost_strategy: Strategy,
    max_cost: f64,
    score_factor: f64,
    resolve_variables: bool,
    rejected_code: u16,
    show_limit_quota_header: bool,
}

/// Without what limit-count knows and this plugin does not.
fn of_limit_count(conf: &Value) -> Value {
    let mut conf = conf.clone();
    if let Some(members) = conf.as_object_mut() {
        members.remove("windows");
        members.remove("_vid");
    }
    conf
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Plugin {
        return Ok(());
    }
    limit_count::check_as(PLUGIN.name, &of_limit_count(conf), kind)?;
    introspection::check(conf)
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(GraphqlLimitCount {
        conf: typed(conf)?,
        limit: LimitCount::of(PLUGIN.name, &of_limit_count(conf), context)?,
        introspection: Introspection::new(conf)?,
    }))
}

struct GraphqlLimitCount {
    conf: Conf,
    limit: LimitCount,
    introspection: Introspection,
}

impl Plugin for GraphqlLimitCount {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if request.head.method != Method::Post {
            return Step::reply(Reply::page(405));
        }
        Step::wait(self.limit_by_cost(request))
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        if request.head.method != Method::Post {
            return Foresight::by_running(self, phase, request);
        }
        match at_once(Question::of_post(request)) {
            Some(Err(reply)) => Foresight::answers(&reply),
            _ => Foresight::maybe(self.conf.rejected_code, Why::Counts),
        }
    }
}

impl GraphqlLimitCount {
    async fn limit_by_cost(&self, request: &mut Request) -> Verdict {
        let question = Question::of_post(request).await?;
        let cost = self.cost(request, question).await?;
        if self.conf.show_limit_quota_header {
            request.early_headers.set(COST_HEADER, number::lua(cost));
        }
        let verdict = match self.limit.limit(request, cost) {
            Step::Next => Ok(()),
            Step::Reply(reply) => Err(reply),
            Step::Wait(waits) | Step::Ask(waits) => waits.await,
        };
        // Without a count there is no verdict on the cost.
        if verdict.as_ref().is_err_and(|reply| reply.status == 500 && self.conf.rejected_code != 500) {
            return verdict;
        }
        let most = self.conf.max_cost;
        if most > 0.0 && cost > most {
            let (cost, most) = (number::lua(cost), number::lua(most));
            let message = format!("Invalid graphql request: query cost {cost} exceeds max_cost {most}");
            return Err(Box::new(Reply::message(403, &message)));
        }
        verdict
    }

    async fn cost(&self, request: &Request, question: Question) -> Result<f64, Box<Reply>> {
        let basis = self.basis(request).await?;
        // Fragments may stand for far more than is written.
        let is_long = basis.is_some() && question.text.contains("...");
        let bytes = if is_long { usize::MAX } else { question.text.len() };
        let counted = aside::run_by_size(request.remote_addr, bytes, move || {
            let document = graphql_request::document(&question.text)?;
            let counted = match &basis {
                None => depth::of(&document, question.operation.as_deref()),
                Some(basis) => basis.cost(&document, &question),
            };
            counted.map_err(|reason| graphql_request::refused(&format!("Invalid graphql request: {reason}")))
        });
        let counted = counted.await.map_err(|aside::Undone| Reply::page(503))??;
        Ok((counted * self.conf.score_factor).ceil().max(1.0))
    }

    /// What fields cost, and where that is looked up; `None` where only the depth counts.
    async fn basis(&self, request: &Request) -> Result<Option<Basis>, Box<Reply>> {
        if self.conf.cost_strategy == Strategy::Depth {
            return Ok(None);
        }
        let service = request.route.as_ref().and_then(|route| route.service_id()).map(|id| &**id);
        let weights = service.and_then(|service| request.snapshot.graphql_weights.get(service)).cloned();
        let schema = match &weights {
            None => None,
            Some(_) => Some(self.introspection.schema(request).await.map_err(|reason| {
                error_log::log(
                    Level::Error,
                    format_args!("failed to compute the graphql query cost: {reason}"),
                );
                let message = "Invalid graphql request: failed to introspect the upstream graphql schema";
                Reply::message(400, message)
            })?),
        };
        let resolves = self.conf.resolve_variables;
        Ok(Some(Basis { strategy: self.conf.cost_strategy, weights, schema, resolves }))
    }
}
