//! `GET /traffic`: requests as they end, as server-sent events (HTML Living Standard section 9.2).

use std::time::Duration;

use tidegate_model::Kind;

use crate::{
    admin_api::{AdminApi, TrafficQuestion},
    message::{Request, Response},
};

/// For a request that asks for no other time.
const USUAL: Duration = Duration::from_secs(60);

impl AdminApi {
    pub(super) async fn traffic(&self, request: &Request) -> Response {
        let mut question = match question(request) {
            Ok(question) => question,
            Err(refused) => return refused,
        };
        let rights = self.rights(request);
        if rights.scope.is_some() {
            let route = question.route.as_deref().and_then(|route| self.store.get(Kind::Route, route));
            let none = |_: Kind, _: &str| None;
            question.object = route.filter(|route| rights.see(Kind::Route, &route.id, &route.value(), &none));
            if question.object.is_none() {
                let message =
                    "you have the traffic of routes in your scope: name one with the argument route";
                return Response::error(403, message);
            }
        }
        match self.hooks.traffic(question).await {
            Ok(events) => Response::stream(events)
                .with_header("Content-Type", "text/event-stream")
                .with_header("Cache-Control", "no-store")
                .with_header("X-Accel-Buffering", "no"),
            Err(reason) => Response::error(503, &reason),
        }
    }
}

fn question(request: &Request) -> Result<TrafficQuestion, Response> {
    let refuse = |message: &str| Response::error(400, message);
    let consumers = request.caller.as_ref().is_none_or(|caller| caller.sees_consumers);
    let given = |name: &str| request.argument(name).filter(|value| !value.is_empty());
    let consumer = given("consumer");
    if consumer.is_some() && !consumers {
        return Err(Response::error(
            403,
            "names of consumers are not shown to you; leave the argument consumer out",
        ));
    }
    let status = given("status").map(|text| statuses(&text)).transpose().map_err(|()| {
        refuse("invalid argument status: should be a status such as 404, or a class such as 5xx")
    })?;
    let number = |name: &str| {
        let given = given(name).map(|text| text.parse::<u32>());
        given.transpose().map_err(|_| refuse(&format!("invalid argument {name}: should be a number")))
    };
    let least = number("min_ms")?.map_or(Duration::ZERO, |ms| Duration::from_millis(ms.into()));
    let longest = number("seconds")?.map_or(USUAL, |seconds| Duration::from_secs(seconds.into()));
    Ok(TrafficQuestion { route: given("route"), object: None, consumer, status, least, consumers, longest })
}

fn statuses(text: &str) -> Result<(u16, u16), ()> {
    let first = match text.strip_suffix("xx") {
        Some(class) => class.parse::<u16>().ok().and_then(|class| class.checked_mul(100)),
        None => text.parse().ok(),
    };
    let first = first.filter(|status| (100..600).contains(status)).ok_or(())?;
    Ok((first, if text.ends_with("xx") { first + 99 } else { first }))
}
