//! `--follow` and `--cookies`: a request is a whole visit, with the redirects on its way.

mod jar;
mod location;
mod page;

use std::{ops::ControlFlow, time::Duration};

use tidegate_protocol::{Method, connection::ConnectionOptions, framing};
use tokio::time::{sleep, timeout};

use self::{jar::Jar, location::Target, page::Page};
use super::{
    body::Body,
    line::Line,
    shared::{Common, FIRST_RETRY, LAST_RETRY, open},
};
use crate::engine::{
    answered::Answered,
    failure::{Broken, Failure, malformed},
    local::wait_until,
};

const MAX_REDIRECTS: usize = 10;

/// What a connection keeps from one visit to the next.
#[derive(Default)]
struct Visitor {
    line: Option<Line>,
    jar: Jar,
}

/// One visit after the other, until nothing is left.
pub(super) async fn connection(index: usize, common: Common) {
    let (mut visitor, mut wait) = (Visitor::default(), FIRST_RETRY);
    loop {
        let Some(due) = common.borrow_mut().take_turn(index) else { return };
        if turn(index, due, &mut visitor, &common).await.is_continue() {
            wait = FIRST_RETRY;
            continue;
        }
        visitor.line = None;
        sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
    }
}

/// Breaks where it failed.
async fn turn(index: usize, due: Option<u64>, visitor: &mut Visitor, common: &Common) -> ControlFlow<()> {
    let (clock, limit) = {
        let shared = common.borrow();
        (shared.clock, shared.plan.timeout)
    };
    // Connects first. Connecting counts towards a visit only if the server ends the connection within it.
    let opened = visitor.line(index, common).await.map(drop);
    if let Some(due) = due {
        wait_until(due, &clock).await;
        visitor.forget_closed(common).await;
    }
    let sent = clock.now();
    let due = due.unwrap_or(sent);
    common.borrow_mut().place(index, |place| (place.taken, place.asked) = (None, Some((sent, due))));
    let visited = match opened {
        Ok(()) => timeout(limit, visit(index, visitor, common))
            .await
            .unwrap_or_else(|_| Err(Broken::new(Failure::Timeout, format!("no answer after {limit:?}")))),
        Err(broken) => Err(broken),
    };
    let mut shared = common.borrow_mut();
    shared.place(index, |place| place.asked = None);
    match visited {
        Ok((status, request)) => {
            let now = clock.now();
            shared.tally.complete(&Answered { now, sent, due, first_byte: 0, status, request });
            shared.place(index, |place| place.usual.add(now - sent));
            ControlFlow::Continue(())
        }
        Err(broken) => {
            shared.tally.fail(broken.failure, &broken.message);
            ControlFlow::Break(())
        }
    }
}

/// Asks, and follows where the answers lead: the status of the last one, and which request it was.
async fn visit(index: usize, visitor: &mut Visitor, common: &Common) -> Result<(u16, u32), Broken> {
    let (follow, origin) = {
        let shared = common.borrow();
        (shared.plan.options.follow, shared.plan.origin.clone())
    };
    let (bytes, request) = common.borrow_mut().request(index);
    common.borrow_mut().advance();
    let mut page = Page::of(&bytes);
    for followed in 0.. {
        let (status, location) = ask(index, visitor, &page, common).await?;
        let Some(location) = location.filter(|_| follow && page::is_redirect(status)) else {
            return Ok((status, request));
        };
        match location::resolve(&origin, page.target(), &location) {
            Target::Here(target) if followed < MAX_REDIRECTS => page.redirect(status, &target),
            Target::Here(_) => break,
            Target::Elsewhere => {
                common.borrow_mut().tally.beyond.visits.elsewhere += 1;
                return Ok((status, request));
            }
            Target::Unusable => return Err(malformed("a Location that is not a URL")),
        }
        common.borrow_mut().tally.beyond.visits.redirects += 1;
    }
    Err(Broken::new(Failure::Redirects, format!("redirects: more than {MAX_REDIRECTS} in a row")))
}

/// One request and its whole answer: its status and where it leads.
async fn ask(
    index: usize,
    visitor: &mut Visitor,
    page: &Page,
    common: &Common,
) -> Result<(u16, Option<Vec<u8>>), Broken> {
    let (keeps, is_tls) = {
        let shared = common.borrow();
        (shared.plan.options.cookies, shared.plan.origin.tls)
    };
    let cookies = if keeps { visitor.jar.field(page.path(), is_tls) } else { None };
    let bytes = page.write(cookies.as_deref());
    let (line, head) = loop {
        let line = visitor.line(index, common).await?;
        let asked = async {
            line.send(&bytes).await?;
            line.head().await
        };
        match asked.await {
            Err(_) if line.is_unanswered() => {
                visitor.line = None;
                common.borrow_mut().tally.server_closes += 1;
            }
            head => {
                let head = head?;
                break (visitor.line(index, common).await?, head);
            }
        }
    };
    let method = if page.is_head() { Method::Head } else { Method::Get };
    let length = framing::response_body(&head, &method).map_err(|error| malformed(error.reason))?;
    let mut body = Body::of(length);
    let mut size = 0;
    while !body.has_ended() {
        let used = body.take(&line.received, |data| size += data.len() as u64)?;
        line.received.drain(..used);
        if !body.has_ended() && line.receive().await? == 0 {
            body.closed()?;
        }
    }
    let came = line.came();
    let persists = ConnectionOptions::of(&head.headers).persists(head.version);
    let closes = !persists || length == tidegate_protocol::BodyLength::UntilClose;
    let mut shared = common.borrow_mut();
    shared.tally.bytes_out += bytes.len() as u64;
    shared.tally.bytes_in += came;
    shared.tally.body_bytes += size;
    if closes {
        visitor.line = None;
        shared.tally.server_closes += 1;
    }
    if keeps {
        for field in head.headers.get_all("set-cookie") {
            let host = &shared.plan.origin.host;
            let is_kept = visitor.jar.set(field, host, page.path());
            shared.tally.beyond.visits.cookies += u64::from(is_kept);
        }
    }
    if shared.server.is_empty() {
        shared.server = head.headers.get_str("server").unwrap_or_default().to_owned();
    }
    Ok((head.status, head.headers.get("location").map(<[u8]>::to_vec)))
}

impl Visitor {
    /// The connection, opened where there is none.
    async fn line(&mut self, index: usize, common: &Common) -> Result<&mut Line, Broken> {
        let line = match self.line.take() {
            Some(line) => line,
            None => open(index, common).await?,
        };
        Ok(self.line.insert(line))
    }

    /// Lets go of a connection that the server has ended while nothing was asked.
    async fn forget_closed(&mut self, common: &Common) {
        let Some(line) = &mut self.line else { return };
        if timeout(Duration::ZERO, line.receive()).await.is_ok() {
            self.line = None;
            common.borrow_mut().tally.server_closes += 1;
        }
    }
}
