//! Answers of the Control API, and lists of the Admin API, which have megabytes at times. They are made one at a time, on a
//! thread for blocking work: the threads of the Admin API have none of it. Requests for one that is there already share it,
//! and what is held for readers is bounded.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use bytes::Bytes;
use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};
use tokio::sync::Semaphore;

use crate::message::Response;

/// What makes two answers to one question the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The revision of the store.
    AtRevision(u64),
    /// Nothing: what was begun before the request may be old.
    Now,
}

pub(crate) struct Documents {
    /// Whose they are, and how many bytes of them clients may hold before no further one is begun.
    whose: &'static str,
    most_bytes: usize,
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Vec<Held>,
    /// Kept for waiting requests.
    newest: Option<Arc<Document>>,
}

struct Held {
    question: String,
    holds: Holds,
    begun: Instant,
    document: Weak<Document>,
    bytes: usize,
}

struct Document(Response);

/// A reader's hold on a document.
struct Reader(Arc<Document>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        &self.0.0.body
    }
}

/// A request that waits for a document.
struct Waiting<'a>(&'a Documents);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Relaxed) == 1 {
            // Freed outside the lock.
            let newest = self.0.state().newest.take();
            drop(newest);
        }
    }
}

impl Documents {
    pub(crate) fn new(whose: &'static str, most_bytes: usize) -> Arc<Documents> {
        Arc::new(Documents {
            whose,
            most_bytes,
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            state: Mutex::default(),
        })
    }

    /// The answer to a question, which `make` makes unless there is one that holds.
    pub(crate) async fn get(
        self: &Arc<Self>,
        question: String,
        holds: Holds,
        make: impl FnOnce() -> Response + Send + 'static,
    ) -> Response {
        let asked = Instant::now();
        if let Some(shared) = self.find(&question, holds, asked) {
            return shared;
        }
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(self);
        let Ok(turn) = self.turn.clone().acquire_owned().await else { return Response::empty(503) };
        if let Some(shared) = self.find(&question, holds, asked) {
            return shared;
        }
        if self.held_bytes() > self.most_bytes {
            return self.full();
        }
        let documents = self.clone();
        // A client that leaves does not give its turn away before the document is made.
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let begun = Instant::now();
            documents.keep(question, holds, begun, make())
        });
        made.await
            .unwrap_or_else(|_| Response::text(503, "this document cannot be rendered; see the error log"))
    }

    fn find(&self, question: &str, holds: Holds, asked: Instant) -> Option<Response> {
        let state = self.state();
        let mut same = state.held.iter().filter(|held| held.question == question && held.holds == holds);
        let found = same.find_map(|held| {
            let holds = holds != Holds::Now || held.begun > asked;
            holds.then(|| held.document.upgrade()).flatten()
        })?;
        drop(state);
        Some(shared(found))
    }

    fn held_bytes(&self) -> usize {
        let mut state = self.state();
        state.held.retain(|held| held.document.strong_count() > 0);
        let newest = state.newest.as_ref().map(Arc::downgrade);
        // What is only kept for waiting requests gives way.
        let given = |held: &&Held| {
            held.document.strong_count() > 1
                || newest.as_ref().is_none_or(|newest| !newest.ptr_eq(&held.document))
        };
        state.held.iter().filter(given).map(|held| held.bytes).sum()
    }

    fn keep(&self, question: String, holds: Holds, begun: Instant, made: Response) -> Response {
        let bytes = made.body.len();
        let document = Arc::new(Document(made));
        let mut state = self.state();
        state.held.push(Held { question, holds, begun, document: Arc::downgrade(&document), bytes });
        let old = state.newest.take();
        if self.waiting.load(Relaxed) > 0 {
            state.newest = Some(document.clone());
        }
        drop(state);
        drop(old);
        shared(document)
    }

    #[cold]
    fn full(&self) -> Response {
        static LINES: Limiter = Limiter::new(1, 10_000);
        let (whose, most) = (self.whose, self.most_bytes >> 20);
        if let Some(others) = LINES.pass() {
            log(
                Level::Warn,
                format_args!(
                    "{whose}: slow readers hold more than {most} MiB of responses; another one gets 503 ({others} more \
                     since the previous line)"
                ),
            );
        }
        Response::error(503, &format!("slow readers hold the memory for {whose} responses; try again"))
            .with_header("Retry-After", "1")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shared(document: Arc<Document>) -> Response {
    let Response { status, headers, .. } = &document.0;
    let (status, headers) = (*status, headers.clone());
    Response { body: Bytes::from_owner(Reader(document)), headers, ..Response::empty(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(documents: &Arc<Documents>, question: &str, holds: Holds, text: &'static str) -> Response {
        documents.get(question.to_owned(), holds, move || Response::text(200, text)).await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn documents_of_a_revision_are_shared_while_somebody_has_them() {
        let documents = Documents::new("API", 64 << 20);
        let [one, two] = [1, 2].map(Holds::AtRevision);
        let first = get(&documents, "a", one, "first").await;
        assert_eq!(get(&documents, "a", one, "again").await.body, "first");
        assert_eq!(get(&documents, "b", one, "other").await.body, "other");
        assert_eq!(get(&documents, "a", two, "second").await.body, "second");
        drop(first);
        assert_eq!(get(&documents, "a", one, "third").await.body, "third");
        let now = get(&documents, "a", Holds::Now, "now").await;
        assert_eq!(get(&documents, "a", Holds::Now, "later").await.body, "later");
        drop(now);
        assert!(documents.state().newest.is_none(), "nobody waits");
        assert_eq!(documents.held_bytes(), 0);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn those_who_wait_get_one_together() {
        let documents = Documents::new("API", 64 << 20);
        let busy = documents.turn.clone().acquire_owned().await.expect("the turn");
        let made = Arc::new(AtomicUsize::new(0));
        let asked: Vec<_> = (0..10)
            .map(|_| {
                let (documents, made) = (documents.clone(), made.clone());
                let make = move || Response::text(200, &made.fetch_add(1, Relaxed).to_string());
                tokio::spawn(async move { documents.get("a".to_owned(), Holds::Now, make).await.body })
            })
            .collect();
        while documents.waiting.load(Relaxed) < 10 {
            tokio::task::yield_now().await;
        }
        drop(busy);
        for asked in asked {
            assert_eq!(asked.await.expect("an answer"), "0");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn held_answers_are_bounded() {
        let documents = Documents::new("API", 64 << 20);
        let make = || Response { body: Bytes::from(vec![b'a'; 33 << 20]), ..Response::empty(200) };
        let ask = |question: &str| documents.get(question.to_owned(), Holds::AtRevision(1), make);
        let (one, two) = (ask("a").await, ask("b").await);
        let refused = ask("c").await;
        assert_eq!((one.status, two.status, refused.status), (200, 200, 503));
        assert_eq!(ask("a").await.status, 200, "what is there is shared all the same");
        drop(two);
        assert_eq!(ask("c").await.status, 200);
    }
}
