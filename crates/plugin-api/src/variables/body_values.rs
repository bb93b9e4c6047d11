//! Values of variables in a request's body, and when they are looked up: at once in a small one; in a large one by
//! another thread, wherever the question can be asked again.

use std::net::IpAddr;

use bytes::Bytes;
use tidegate_protocol::{HeaderId, media_type};
use tidegate_routing::expr::Operand;
use tidegate_telemetry::error_log;

use super::{
    Named,
    body::{self, Source, most, of, operation},
    body_values,
    known::{BODY_TOO_LARGE, CODED, MALFORMED, Unjudged},
    variable::Variable,
};
use crate::{Reply, Request, RequestBody, aside, document::limits::TooLarge};

/// The value of a variable of the body.
pub(super) fn value<'a>(request: &'a Request, variable: &Variable) -> Operand<'a> {
    let values = &request.body_values;
    // The upstream decides which of two media types counts.
    let is_ambiguous = || request.head.headers.all_known(HeaderId::ContentType).nth(1).is_some();
    let body = match &request.body {
        RequestBody::Empty => return Operand::Nil,
        _ if is_ambiguous() => return unjudged(request, MALFORMED),
        _ if request.has_coded_body() && source(request, &[]).is_for(variable) => {
            return unjudged(request, CODED);
        }
        RequestBody::Unread { .. } => {
            let source = source(request, &[]);
            if source.may_have(variable) {
                values.wants_body.set(true);
            }
            // Routing left it on the wire because it is too large.
            return if source.is_for(variable) { unjudged(request, BODY_TOO_LARGE) } else { Operand::Nil };
        }
        RequestBody::Collected(body) => body,
    };
    if body.len() <= aside::SMALL {
        let value = body::look_up(variable, &source(request, body));
        return value.unwrap_or_else(|reason| unjudged(request, reason));
    }
    if values.find(body, variable).is_none() {
        if values.deferring.get() {
            values.wanted.borrow_mut().push(variable.clone());
            return Operand::Nil;
        }
        let value = body::look_up(variable, &source(request, body)).map(owned);
        values.add(body.clone(), variable.clone(), value, request.remote_addr);
    }
    match values.find(body, variable) {
        Some(Ok(value)) => borrowed(value),
        Some(Err(reason)) => unjudged(request, *reason),
        None => Operand::Nil,
    }
}

/// The whole body, for conditions.
pub(super) fn whole(request: &Request) -> Operand<'_> {
    match &request.body {
        RequestBody::Empty => Operand::Nil,
        _ if request.has_coded_body() => unjudged(request, CODED),
        RequestBody::Unread { .. } => {
            request.body_values.wants_body.set(true);
            unjudged(request, BODY_TOO_LARGE)
        }
        RequestBody::Collected(body) => Operand::Bytes(body.as_ref().into()),
    }
}

fn source<'a>(request: &'a Request, body: &'a [u8]) -> Source<'a> {
    let content_type = request.head.headers.known(HeaderId::ContentType).unwrap_or_default();
    Source { body, content_type, client: request.remote_addr }
}

/// No value. Records that a condition on it is undecided.
pub(super) fn unjudged(request: &Request, reason: Unjudged) -> Operand<'static> {
    match reason {
        Unjudged::TooLarge(error) => {
            error_log::log(
                error_log::Level::Error,
                format_args!("a condition on the request body cannot be evaluated: {error}"),
            );
            request.set_undecided(error.status());
        }
        Unjudged::Unreadable(status) => request.body_values.unreadable.set(Some(status)),
    }
    Operand::Nil
}

fn borrowed<'a>(value: &'a Operand<'static>) -> Operand<'a> {
    match value {
        Operand::Nil => Operand::Nil,
        Operand::Bytes(bytes) => Operand::Bytes(bytes.as_ref().into()),
        Operand::Number(number) => Operand::Number(*number),
        Operand::Boolean(value) => Operand::Boolean(*value),
        Operand::List(items) => Operand::List(items.iter().map(borrowed).collect()),
    }
}

fn owned(value: Operand<'_>) -> Operand<'static> {
    match value {
        Operand::Nil => Operand::Nil,
        Operand::Bytes(bytes) => Operand::Bytes(bytes.into_owned().into()),
        Operand::Number(number) => Operand::Number(number),
        Operand::Boolean(value) => Operand::Boolean(value),
        Operand::List(items) => Operand::List(items.into_iter().map(owned).collect()),
    }
}

impl Request {
    /// Whether an upstream may read the body differently because it decodes what the head names: a content coding
    /// (RFC 9110 section 8.4), or a charset other than UTF-8.
    pub fn has_coded_body(&self) -> bool {
        let headers = &self.head.headers;
        let mut codings = headers.all_known(HeaderId::ContentEncoding);
        codings.any(|coding| !coding.trim_ascii().is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
            || headers.all_known(HeaderId::ContentType).any(media_type::names_other_charset)
    }

    /// `Err` once a condition asked for a body that is too large to be read here, coded, or malformed. That matters while routes
    /// are matched, where another route might have had the request, and where a guard is skipped because its condition does not
    /// hold. Elsewhere only the value is missing.
    pub fn require_readable_body(&self) -> Result<(), Box<Reply>> {
        self.body_values.unreadable.get().map_or(Ok(()), |status| Err(Box::new(Reply::page(status))))
    }

    /// Reads the body for conditions. One whose announced length is too large stays on the wire: a request whose route
    /// depends on it is refused, other conditions on it do not hold. One that turns out to be too large while it arrives
    /// cannot be put back, and is refused.
    async fn collect_for_conditions(&mut self, limit: usize) -> Result<(), Box<Reply>> {
        let RequestBody::Unread { length, .. } = &self.body else { return Ok(()) };
        if let Some(length) = length.filter(|length| *length > limit as u64) {
            error_log::log(
                error_log::Level::Error,
                format_args!(
                    "request size {length} is greater than the maximum size {limit} that routes look into"
                ),
            );
            return Ok(());
        }
        self.collect_body(limit).await?;
        Ok(())
    }

    /// Asks a question about the request. Where the answer depends on a large body, the question is asked again once
    /// another thread has parsed the body.
    pub async fn ask<R>(&mut self, question: impl Fn(&Request) -> R) -> R {
        loop {
            let body = match &self.body {
                RequestBody::Collected(body) if body.len() > aside::SMALL => body.clone(),
                _ => return question(self),
            };
            let before = (self.undecided.get(), self.body_values.unreadable.get());
            self.body_values.deferring.set(true);
            let answer = question(self);
            self.body_values.deferring.set(false);
            let wanted = self.body_values.wanted.take();
            if wanted.is_empty() {
                return answer;
            }
            // A condition that was undecided without these values may be decided with them.
            self.undecided.set(before.0);
            self.body_values.unreadable.set(before.1);
            Box::pin(self.look_up(body, wanted)).await;
        }
    }

    /// Asks as `ask` does, and reads the body first where the answer depends on one that is still on the wire.
    pub async fn ask_with_body<R>(
        &mut self,
        limit: usize,
        question: impl Fn(&Request) -> R,
    ) -> Result<R, Box<Reply>> {
        self.body_values.wants_body.set(false);
        self.body_values.unreadable.set(None);
        let answer = self.ask(&question).await;
        if !self.body_values.wants_body.get() {
            return Ok(answer);
        }
        Box::pin(self.collect_for_conditions(limit)).await?;
        // A body that could not be read while it was on the wire may be readable now.
        self.body_values.unreadable.set(None);
        Ok(self.ask(question).await)
    }

    /// Evaluates a question of a guard. `Err`: it is undecided, so the request is refused.
    pub async fn decide<R>(
        &mut self,
        limit: usize,
        question: impl Fn(&Request) -> R,
    ) -> Result<R, Box<Reply>> {
        let answer = self.ask_with_body(limit, question).await?;
        self.require_decided()?;
        self.require_readable_body()?;
        Ok(answer)
    }

    async fn look_up(&mut self, body: Bytes, wanted: Vec<Variable>) {
        let content_type = self.head.headers.known(HeaderId::ContentType).unwrap_or_default().to_vec();
        let client: IpAddr = self.remote_addr;
        let (bytes, variables) = (body.clone(), wanted.clone());
        let found = aside::run(client, move || {
            let source = Source { body: &bytes, content_type: &content_type, client };
            let value = |variable: &Variable| body::look_up(variable, &source).map(owned);
            variables.iter().map(value).collect::<Vec<_>>()
        });
        let found = found.await.unwrap_or_default();
        let mut found = found.into_iter();
        for variable in wanted {
            // A job that was not done counts as a body that cannot be read.
            let value = found.next().unwrap_or(Err(Unjudged::TooLarge(TooLarge::Spent)));
            self.body_values.add(body.clone(), variable, value, client);
        }
    }
}

/// A variable of GraphQL, from the query of a GET request or from the body of another.
pub(super) fn graphql(request: &Request, named: Named) -> Operand<'_> {
    match request.head.method {
        tidegate_protocol::Method::Get => {
            let Some(query) = request.arg("query") else { return Operand::Nil };
            if query.len() > most() {
                return body_values::unjudged(request, BODY_TOO_LARGE);
            }
            let name = request.arg("operationName");
            let name = name.as_deref().and_then(|name| std::str::from_utf8(name).ok());
            match operation(&query, name) {
                Some(found) => of(found, named),
                None => body_values::unjudged(request, MALFORMED),
            }
        }
        // Servers differ in whether they take this one or the body's.
        _ if request.arg("query").is_some() => body_values::unjudged(request, MALFORMED),
        _ => body_values::value(request, &Variable::Named(named)),
    }
}
