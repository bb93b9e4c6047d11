//! `GET /stats`: figures over time, for the console and for curl.

use crate::{
    admin_api::{AdminApi, StatsQuestion},
    at_length::at_length,
    message::{Request, Response},
};

/// The names that `range` may have, in seconds.
pub(crate) const RANGES: [(&str, u64); 5] =
    [("10m", 600), ("1h", 3600), ("6h", 21_600), ("24h", 86_400), ("7d", 604_800)];

pub(crate) const USUAL_TOP: usize = 20;

/// As many as are kept of a minute.
pub(crate) const MOST_TOP: usize = 1000;

impl AdminApi {
    pub(super) async fn stats(&self, request: &Request) -> Response {
        let mut question = match question(request) {
            Ok(question) => question,
            Err(message) => return Response::error(400, &message),
        };
        let rights = self.rights(request);
        question.routes = at_length(|| self.routes_in_scope(&rights));
        match self.hooks.stats(question).await {
            Ok(mut figures) => {
                self.figures_in_scope(request, &mut figures);
                Response::json(200, &figures).with_header("Cache-Control", "no-store")
            }
            Err(reason) => Response::error(503, &reason),
        }
    }
}

fn question(request: &Request) -> Result<StatsQuestion, String> {
    let range = request.argument("range").unwrap_or_else(|| "1h".to_owned());
    let range_s = RANGES.into_iter().find(|(name, _)| *name == range).map(|(_, seconds)| seconds);
    let top = request.argument("top").map_or(Ok(USUAL_TOP), |top| top.parse());
    Ok(StatsQuestion {
        range_s: range_s.ok_or("invalid argument range: should be 10m, 1h, 6h, 24h or 7d")?,
        top: top
            .ok()
            .filter(|top| (1..=MOST_TOP).contains(top))
            .ok_or("invalid argument top: should be a number from 1 to 1000")?,
        consumers: request.caller.as_ref().is_none_or(|caller| caller.sees_consumers),
        routes: None,
    })
}
