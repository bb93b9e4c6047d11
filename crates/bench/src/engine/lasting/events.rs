//! Server-sent events: one request, and an answer that does not end.

mod reader;

use tidegate_protocol::{Method, ResponseHead, framing};
use tokio::time::{sleep, timeout};

use self::reader::EventReader;
use super::{
    body::Body,
    line::Line,
    shared::{Common, FIRST_RETRY, LAST_RETRY, open},
};
use crate::engine::{
    answered::Answered,
    failure::{Broken, Failure, malformed},
};

/// Keeps one connection open until the run ends.
pub(super) async fn connection(index: usize, common: Common) {
    let mut wait = FIRST_RETRY;
    loop {
        let mut is_good = false;
        let held = match open(index, &common).await {
            Ok(line) => hold(index, line, &mut is_good, &common).await,
            Err(broken) => Err(broken),
        };
        common.borrow_mut().place(index, |place| (place.asked, place.heard) = (None, None));
        if let Err(broken) = held {
            common.borrow_mut().tally.fail(broken.failure, &broken.message);
        }
        // A server that ends its streams at once is not stormed.
        wait = if is_good { FIRST_RETRY } else { wait };
        sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
    }
}

/// Asks for the stream and counts its events until it ends. It is good if there was one.
async fn hold(index: usize, mut line: Line, is_good: &mut bool, common: &Common) -> Result<(), Broken> {
    let head = ask(index, &mut line, common).await?;
    if !common.borrow().plan.accepts(head.status) {
        return Ok(());
    }
    let kind = head.headers.get_str("content-type").unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("text/event-stream") {
        let found = if kind.is_empty() { "no content-type" } else { kind };
        return Err(malformed(&format!("{found} instead of text/event-stream; is the path right?")));
    }
    let length = framing::response_body(&head, &Method::Get).map_err(|error| malformed(error.reason))?;
    let clock = common.borrow().clock;
    let mut last = None;
    let now = clock.now();
    {
        let mut shared = common.borrow_mut();
        shared.tally.beyond.events.opened += 1;
        shared.place(index, |place| place.heard = Some(now));
    }
    let (mut body, mut reader) = (Body::of(length), EventReader::default());
    loop {
        let used = body.take(&line.received, |data| {
            let events = reader.take(data);
            let mut shared = common.borrow_mut();
            shared.tally.body_bytes += data.len() as u64;
            if events > 0 {
                let now = clock.now();
                shared.tally.heard(now, last, events);
                shared.place(index, |place| place.heard = Some(now));
                (last, *is_good) = (Some(now), true);
            }
        })?;
        line.received.drain(..used);
        if body.has_ended() {
            common.borrow_mut().tally.beyond.events.ended += 1;
            return Ok(());
        }
        let received = line.receive().await?;
        common.borrow_mut().tally.bytes_in += line.came();
        if received == 0 {
            body.closed()?;
        }
    }
}

/// Sends the request and reads the head of its answer, within the time limit.
async fn ask(index: usize, line: &mut Line, common: &Common) -> Result<ResponseHead, Broken> {
    let (bytes, request) = common.borrow_mut().request(index);
    common.borrow_mut().advance();
    let (clock, limit) = {
        let shared = common.borrow();
        (shared.clock, shared.plan.timeout)
    };
    let sent = clock.now();
    common.borrow_mut().place(index, |place| place.asked = Some((sent, sent)));
    let asked = async {
        line.send(&bytes).await?;
        line.head().await
    };
    let late = |_| Broken::new(Failure::Timeout, format!("no answer after {limit:?}"));
    let head = timeout(limit, asked).await.map_err(late)??;
    let now = clock.now();
    let mut shared = common.borrow_mut();
    shared.tally.bytes_in += line.came();
    shared.tally.complete(&Answered { now, sent, due: sent, first_byte: 0, status: head.status, request });
    shared.place(index, |place| {
        place.asked = None;
        place.usual.add(now - sent);
    });
    if shared.server.is_empty() {
        shared.server = head.headers.get_str("server").unwrap_or_default().to_owned();
    }
    Ok(head)
}
