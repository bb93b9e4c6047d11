//! Figures of the gateway's traffic over seven days, for who looks at it without a monitoring system.
//!
//! ```text
//! shards of metrics --once a second--> seconds --> minutes --> ten minutes      totals: in memory, at most 3,048 of them
//!                                      `now`       files       files            routes and consumers: in files
//! ```
//!
//! One thread of its own writes them, with the priority of the background; workers know nothing of it. What plugin prometheus counts is all
//! there is to take; the number of requests is that of the workers. What is on the disk is at most five seconds old. Files are
//! not synced: after a power failure the last half minute may be missing.
//!
//! Not here: what a figure means, and who may see names.

mod count;
mod folder;
mod level;
mod now;
mod record;
mod segment;
mod wire;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use self::count::{BUCKETS, Count, Share};
use self::{
    count::Shares,
    folder::{Folder, Kind},
    level::{Level, Period},
};
use crate::{
    error_log::{self, Level as LogLevel},
    limiter::Limiter,
    metrics::Registry,
};

/// How often what is not over is saved.
const SAVED_EVERY_S: u64 = 5;

/// The same while there are no requests.
const SAVED_IDLE_S: u64 = 60;

/// Taking what was counted may use this part of the time.
const DUTY: u32 = 50;

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Without a new request the shards are looked at as seldom as this: long ones may end.
const IDLE_LOOKS: u32 = 10;

/// Periods that wait for the folder, of each kind; one process hands over to the next.
const MOST_WAITING: usize = 64;

/// The figures of this process, and of those before it.
#[derive(Debug)]
pub struct Stats {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` until it could be had.
    folder: Option<Folder>,
    /// Why there is none, or what could not be written.
    problem: Option<String>,
    seconds: Level,
    minutes: Level,
    tens: Level,
    minute: Period,
    ten: Period,
    waiting: Vec<(Kind, Period)>,
    saved: u64,
    is_changed: bool,
    /// Requests of the workers at the last look.
    begun: u64,
    idle_looks: u32,
    take_again: Option<Instant>,
}

/// Figures over time.
#[derive(Debug, Default)]
pub struct View {
    /// Seconds of each time.
    pub step: u64,
    /// The first of all times, and the end of the last one, in seconds since 1970.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// Those in which the gateway ran.
    pub bins: Vec<(u64, Count)>,
    /// Those with most requests, the first of them first.
    pub routes: Vec<(String, Share)>,
    /// All others.
    pub other_routes: Share,
    /// As `routes`.
    pub consumers: Vec<(String, Share)>,
    /// All others; requests without a consumer are not among them.
    pub other_consumers: Share,
    /// Bytes of the files.
    pub bytes: u64,
    /// Why nothing is kept, where it is not.
    pub problem: Option<String>,
}

impl Stats {
    /// Keeps its files in this folder once [`Stats::take_figures`] is called.
    pub fn new(path: PathBuf) -> Stats {
        let state = State {
            folder: None,
            problem: None,
            seconds: Level::new(1, 600),
            minutes: Level::new(60, 1440),
            tens: Level::new(600, 1008),
            minute: Period::default(),
            ten: Period::default(),
            waiting: Vec::new(),
            saved: 0,
            is_changed: false,
            begun: 0,
            idle_looks: IDLE_LOOKS,
            take_again: None,
        };
        Stats { path, state: Mutex::new(state) }
    }

    /// To be called once a second. `begun`: requests of all workers since the start.
    pub fn take_figures(&self, unix_s: u64, begun: u64, registry: &Registry) {
        let mut state = self.lock();
        state.open_folder(&self.path);
        state.roll(unix_s);
        let mut period = Period::default();
        period.count.requests = begun.saturating_sub(state.begun);
        state.begun = begun;
        state.take(&mut period, registry);
        state.add(unix_s, &period);
        let every = if state.is_changed { SAVED_EVERY_S } else { SAVED_IDLE_S };
        if unix_s.abs_diff(state.saved) >= every {
            state.save(unix_s);
        }
    }

    /// As the process ends.
    pub fn close(&self, unix_s: u64) {
        let mut state = self.lock();
        state.save(unix_s);
        state.folder = None;
    }

    /// The last `range_s` seconds, with the `top` routes and consumers. Reads files: blocks.
    pub fn view(&self, unix_s: u64, range_s: u64, top: usize) -> View {
        self.view_of(unix_s, range_s, top, None)
    }

    /// The same with none but these routes, each from a time on (in seconds since 1970): before it an id may have been another's.
    pub fn view_of(
        &self,
        unix_s: u64,
        range_s: u64,
        top: usize,
        only: Option<&HashMap<String, u64>>,
    ) -> View {
        let state = self.lock();
        let (level, open, kind) = match range_s {
            ..=600 => (&state.seconds, None, Kind::Minutes),
            601..=86_400 => (&state.minutes, Some(&state.minute), Kind::Minutes),
            _ => (&state.tens, Some(&state.ten), Kind::TenMinutes),
        };
        let to = level.start_of(unix_s) + level.step;
        let from = to.saturating_sub(level.start_of(range_s));
        let mut view = View { step: level.step, from, to, problem: state.problem.clone(), ..View::default() };
        view.bins.extend(level.within(from, to));
        view.bins.extend(
            open.filter(|open| (from..to).contains(&open.start)).map(|open| (open.start, open.count)),
        );
        let unfinished = if kind == Kind::Minutes { &state.minute } else { &state.ten };
        let (mut routes, mut consumers) = (Shares::default(), unfinished.consumers.clone());
        routes.add_some(&unfinished.routes, unfinished.start, only);
        for (_, waiting) in
            state.waiting.iter().filter(|(waiting, period)| *waiting == kind && period.start >= from)
        {
            routes.add_some(&waiting.routes, waiting.start, only);
            consumers.add_all(&waiting.consumers);
        }
        view.bytes = state.folder.as_ref().map_or(0, Folder::bytes);
        let files =
            state.folder.as_ref().map(|folder| folder.files_within(kind, from, to)).unwrap_or_default();
        drop(state);
        for path in files {
            let read = segment::contents(&path).and_then(|bytes| {
                segment::read(&bytes, |period| {
                    // A minute that reaches into the range counts whole.
                    if period.start + 60 > from && period.start < to {
                        routes.add_some(&period.routes, period.start, only);
                        consumers.add_all(&period.consumers);
                    }
                })
            });
            if let Err(error) = read {
                folder::set_aside(&path, &error);
            }
        }
        (view.routes, view.other_routes) = top_of(&routes, top);
        (view.consumers, view.other_consumers) = top_of(&consumers, top);
        view
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Sums that a panic left half made are figures still.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn top_of(shares: &Shares, most: usize) -> (Vec<(String, Share)>, Share) {
    let (top, others) = shares.top(most);
    (top.into_iter().map(|(name, share)| (name.to_owned(), share)).collect(), others)
}

impl State {
    /// Gets the folder, with what earlier processes left in it.
    fn open_folder(&mut self, path: &Path) {
        if self.folder.is_some() {
            return;
        }
        match Folder::open(path) {
            Ok(Some(folder)) => {
                self.problem = None;
                self.load(&folder);
                self.folder = Some(folder);
            }
            Ok(None) => self.problem = Some(format!("{} is in use by another process", path.display())),
            Err(error) => self.complain(&format!("{}: {error}", path.display())),
        }
    }

    fn load(&mut self, folder: &Folder) {
        let (minutes, tens) = (&mut self.minutes, &mut self.tens);
        let (mut last_minute, mut last_ten) = (0, 0);
        folder.load(Kind::Minutes, |period| {
            last_minute = last_minute.max(period.start);
            minutes.add(period.start, &period.count);
        });
        folder.load(Kind::TenMinutes, |period| {
            last_ten = last_ten.max(period.start);
            tens.add(period.start, &period.count);
        });
        let Some(now) = folder.load_now() else { return };
        now.seconds.iter().for_each(|(start, count)| self.seconds.add(*start, count));
        let [minute, ten] = now.open;
        // What a file has already was saved before it was over.
        self.take_over(Kind::Minutes, minute, last_minute);
        self.take_over(Kind::TenMinutes, ten, last_ten);
    }

    fn take_over(&mut self, kind: Kind, left: Period, last: u64) {
        if left.start <= last || left.start == 0 {
            return;
        }
        let open = self.open(kind);
        if open.start == left.start || open.start == 0 {
            open.start = left.start;
            open.add(&left);
        } else {
            self.finish(kind, left);
        }
    }

    fn open(&mut self, kind: Kind) -> &mut Period {
        match kind {
            Kind::Minutes => &mut self.minute,
            Kind::TenMinutes => &mut self.ten,
        }
    }

    /// Ends the minute and the ten minutes that are over.
    fn roll(&mut self, unix_s: u64) {
        for (kind, start) in
            [(Kind::Minutes, self.minutes.start_of(unix_s)), (Kind::TenMinutes, self.tens.start_of(unix_s))]
        {
            let open = self.open(kind);
            if open.start != start {
                let over = std::mem::replace(open, Period::at(start));
                if over.start != 0 {
                    self.finish(kind, over);
                }
            }
        }
        if self.folder.is_some() {
            for (kind, period) in std::mem::take(&mut self.waiting) {
                self.append(kind, &period);
            }
        }
    }

    fn finish(&mut self, kind: Kind, over: Period) {
        let level = if kind == Kind::Minutes { &mut self.minutes } else { &mut self.tens };
        level.add(over.start, &over.count);
        if self.folder.is_some() {
            self.append(kind, &over);
        } else if self.waiting.len() < 2 * MOST_WAITING {
            self.waiting.push((kind, over));
        }
    }

    fn append(&mut self, kind: Kind, period: &Period) {
        let written = self.folder.as_mut().map_or(Ok(()), |folder| folder.append(kind, period));
        self.wrote(written);
    }

    fn save(&mut self, unix_s: u64) {
        let Some(folder) = &self.folder else { return };
        let written = folder.save_now(&now::write(&self.seconds, [&self.minute, &self.ten]));
        (self.saved, self.is_changed) = (unix_s, false);
        self.wrote(written);
    }

    fn wrote(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.problem = None,
            Err(error) => self.complain(&error.to_string()),
        }
    }

    fn complain(&mut self, problem: &str) {
        static LINES: Limiter = Limiter::new(1, 600_000);
        self.problem = Some(problem.to_owned());
        if LINES.pass().is_some() {
            error_log::log(
                LogLevel::Warn,
                format_args!("figures of the console cannot be kept, and end with this process: {problem}"),
            );
        }
    }

    /// What plugin prometheus has counted, unless the last time took too long to do it again already.
    fn take(&mut self, period: &mut Period, registry: &Registry) {
        if period.count.requests == 0 && self.idle_looks < IDLE_LOOKS {
            self.idle_looks += 1;
            return;
        }
        let begun = Instant::now();
        if self.take_again.is_some_and(|again| begun < again) {
            return;
        }
        registry.take_requests(|taken| {
            period.count.add_taken(taken);
            let share = Share::of(taken);
            period.routes.add(taken.route, share);
            if !taken.consumer.is_empty() {
                period.consumers.add(taken.consumer, share);
            }
        });
        self.take_again = Some(begun + (begun.elapsed() * DUTY).min(LONGEST_PAUSE));
        self.idle_looks = if period.count.is_empty() { 1 } else { IDLE_LOOKS };
    }

    fn add(&mut self, unix_s: u64, period: &Period) {
        self.seconds.add(unix_s, &period.count);
        self.minute.add(period);
        self.ten.add(period);
        self.is_changed |= !period.count.is_empty();
    }
}

#[cfg(test)]
mod tests;
