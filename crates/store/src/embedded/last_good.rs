//! Serving the copy of the last good configuration, read-only, while the store is damaged.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use tidegate_model::Object;
use tidegate_telemetry::error_log::{Level, log};
use tokio::sync::watch;

use super::{
    Hooks,
    copy::{self, Head, Kept},
    expiries::{Expiries, now_ms},
    marker::{Found, Marker},
};
use crate::{
    BoxFuture, Change, Changes, LastGoodState, State, Store, Write, Written, error::StoreError, live::Live,
};

/// It is said again that often.
const REMINDER: Duration = Duration::from_secs(60);

/// What the newest acknowledged state has and a copy has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lag {
    /// The copy is of the newest acknowledged state.
    Nothing,
    /// The copy is of an older state.
    Behind {
        /// Acknowledged writes that it lacks.
        writes: u64,
        /// Since the first of them; `None`: their times are not known.
        seconds: Option<u64>,
    },
    /// It cannot be determined; why.
    Unknown(String),
}

impl Lag {
    /// Of a copy, by the marker of the store beside it. The error: the copy is of another store, or contradicts the marker.
    pub fn of(database: &Path, head: &Head) -> Result<Self, String> {
        let marker = Marker::new(database);
        let told = match marker.read() {
            Ok(Found::Record(told)) => told,
            Ok(Found::Nothing) => return Ok(Self::Unknown("the marker of the store is missing".to_owned())),
            Ok(Found::WithoutRecord) => {
                return Ok(Self::Unknown("the marker is of an older version of this program".to_owned()));
            }
            Err(_) => return Ok(Self::Unknown("the marker of the store cannot be read".to_owned())),
        };
        if told.identity != head.identity {
            return Err("it belongs to another store".to_owned());
        }
        match told.revision.checked_sub(head.revision) {
            Some(0) if told.objects != head.objects => {
                Err(format!("it has {} objects instead of {}", head.objects, told.objects))
            }
            // After a power loss the marker may be the older one.
            Some(0) | None => Ok(Self::Nothing),
            Some(writes) => {
                let until_ms = copy::newest_until_ms(&super::files::place(database)).unwrap_or(head.taken_ms);
                let seconds = marker.recorded_ms().map(|at| at.saturating_sub(until_ms).div_ceil(1000));
                Ok(Self::Behind { writes, seconds })
            }
        }
    }

    /// In the words of a message.
    pub fn words(&self) -> String {
        match self {
            Self::Nothing => "it holds everything that was acknowledged".to_owned(),
            Self::Behind { writes, seconds } => {
                let seconds = seconds.map(|seconds| format!(" and {seconds} s")).unwrap_or_default();
                format!("it is {writes} writes{seconds} behind the newest acknowledged one")
            }
            Self::Unknown(reason) => format!("how far it is behind is unknown ({reason})"),
        }
    }
}

/// The configuration of a copy.
pub struct LastGood {
    live: Arc<Live>,
    state: LastGoodState,
    /// Its thread ends with it.
    _end: mpsc::Sender<()>,
}

impl LastGood {
    /// The copy beside a store that is damaged: `problem` says how. One that is behind is served only on demand, since what
    /// was closed or guarded since would be open.
    pub fn open(path: &Path, hooks: Hooks, problem: &str, even_behind: bool) -> Result<Self, StoreError> {
        let place = super::files::place(path);
        let shown = place.display();
        let refused = |text: String| StoreError::Damaged(format!("{problem}. {text}"));
        let kept = match copy::read(&place) {
            Ok(Some(kept)) => kept,
            Ok(None) => {
                return Err(refused(format!(
                    "There is no copy of the last good configuration ({shown}) to serve"
                )));
            }
            Err(reason) => {
                return Err(refused(format!(
                    "The copy of the last good configuration, {shown}, is not served: {reason}"
                )));
            }
        };
        let lag = Lag::of(path, &kept.head).map_err(|reason| {
            refused(format!("The copy of the last good configuration, {shown}, is not served: {reason}"))
        })?;
        if lag != Lag::Nothing && !even_behind {
            return Err(refused(format!(
                "The copy of the last good configuration, {shown}, holds revision {}; {}. Serving it may open what has \
                 been closed since: run `tidegate config repair`, or start with --serve-last-good to serve it read-only",
                kept.head.revision,
                lag.words()
            )));
        }
        let head = kept.head;
        let decode = || decoded(kept, &hooks);
        let (state, expiries) = catch_unwind(AssertUnwindSafe(decode)).map_err(|_| {
            refused(format!("The copy of the last good configuration, {shown}, cannot be decrypted"))
        })?;
        let state_of = LastGoodState {
            copy: place.clone(),
            problem: problem.to_owned(),
            revision: head.revision,
            taken_ms: head.taken_ms,
            lag: lag.words(),
            writes_behind: match lag {
                Lag::Nothing => Some(0),
                Lag::Behind { writes, .. } => Some(writes),
                Lag::Unknown(_) => None,
            },
        };
        let live = Arc::new(Live::new(state));
        let (end, ended) = mpsc::channel();
        let mut keeper = Keeper { live: live.clone(), expiries, said: said(&state_of) };
        thread::Builder::new()
            .name("last-good".to_owned())
            .spawn(move || keeper.run(&ended))
            .map_err(|error| StoreError::Unavailable(format!("cannot start the database thread: {error}")))?;
        Ok(Self { live, state: state_of, _end: end })
    }

    /// Of the copy's file.
    pub fn path(&self) -> &Path {
        &self.state.copy
    }

    /// What an operator has to know.
    pub fn warning(&self) -> String {
        said(&self.state)
    }

    fn refused(&self) -> StoreError {
        StoreError::Unavailable(format!(
            "the store is damaged, and the last good configuration is served read-only: run `tidegate config repair`, \
             then `tidegate upgrade`; {}",
            self.state.problem
        ))
    }
}

fn said(state: &LastGoodState) -> String {
    format!(
        "the last good configuration is served READ-ONLY from {} (revision {}; {}), because {}; `tidegate config repair`, \
         then `tidegate upgrade`, ends this",
        state.copy.display(),
        state.revision,
        state.lag,
        state.problem
    )
}

fn decoded(kept: Kept, hooks: &Hooks) -> (State, Expiries) {
    let mut state = State::at(kept.head.revision);
    let mut stored = Vec::new();
    for record in kept.records {
        let object = hooks.open(record.object);
        if let Some(at_ms) = record.expires_at_ms {
            stored.push((at_ms, object.clone()));
        }
        state.put(object);
    }
    (state, Expiries::new(stored))
}

/// Ends objects whose time to live is over, and says again what the state is.
struct Keeper {
    live: Arc<Live>,
    expiries: Expiries,
    said: String,
}

impl Keeper {
    fn run(&mut self, ended: &mpsc::Receiver<()>) {
        let mut remind_at = Instant::now() + REMINDER;
        loop {
            let until_reminder = remind_at.saturating_duration_since(Instant::now());
            let wait = self.expiries.wait().map_or(until_reminder, |wait| wait.min(until_reminder));
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            if Instant::now() >= remind_at {
                log(Level::Error, format_args!("{}", self.said));
                remind_at = Instant::now() + REMINDER;
            }
            let due = self.expiries.due(now_ms());
            if !due.is_empty() {
                let revision = self.live.read(|state| state.revision) + 1;
                let gone = |(kind, id)| (revision, Change { kind, id, object: None::<Object> });
                self.live.publish(revision, due.into_iter().map(gone).collect());
            }
        }
    }
}

impl Store for LastGood {
    fn read(&self, read: &mut dyn FnMut(&State)) {
        self.live.read(|state| read(state));
    }

    fn write(&self, _: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        Box::pin(std::future::ready(Err(self.refused())))
    }

    fn changes_since(&self, revision: u64) -> Changes {
        self.live.changes_since(revision)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.live.watch()
    }

    /// `true`, although writes fail until the store is repaired: their error says why, and how.
    fn is_writable(&self) -> bool {
        true
    }

    fn last_good(&self) -> Option<&LastGoodState> {
        Some(&self.state)
    }
}
