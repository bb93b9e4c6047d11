//! A timer for each thread, which runs while the thread does.

use std::{
    collections::HashMap,
    ffi::c_void,
    fs, io,
    mem::zeroed,
    ptr::{null_mut, without_provenance_mut},
    sync::Arc,
};

use crate::samples;

/// More are not sampled: a gateway has its workers, a few threads beside them, and a pool for blocking work.
const MOST_THREADS: usize = 1024;

/// Of clock numbers made of a thread's (`CPUCLOCK_PERTHREAD_MASK`, `CPUCLOCK_SCHED` of the kernel).
const CPU_TIME_OF_THREAD: libc::clockid_t = 4 | 2;

/// Threads that are being sampled.
pub(crate) struct Timers {
    period: libc::timespec,
    own: i32,
    threads: HashMap<i32, Thread>,
}

struct Thread {
    name: Arc<str>,
    timer: Option<libc::timer_t>,
}

impl Timers {
    pub(crate) fn start(frequency: u64) -> Result<Timers, String> {
        if !samples::can_copy() {
            let why = "the sandbox of this process forbids process_vm_readv(2), by which stacks are copied";
            return Err(why.to_owned());
        }
        samples::begin().map_err(|error| format!("no handler of SIGPROF: {error}"))?;
        let nanoseconds = 1_000_000_000 / frequency.max(2);
        let period = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds as libc::c_long };
        // SAFETY: takes nothing and cannot fail.
        let own = unsafe { libc::gettid() };
        let mut timers = Timers { period, own, threads: HashMap::new() };
        match timers.arm_new_threads() {
            Some(error) if timers.threads.values().all(|thread| thread.timer.is_none()) => {
                Err(format!("no timer for any thread: {error}"))
            }
            _ => Ok(timers),
        }
    }

    /// Begins with threads that are new. Returns why one has no timer.
    pub(crate) fn arm_new_threads(&mut self) -> Option<io::Error> {
        let mut failed = None;
        for number in numbers() {
            if number == self.own || self.threads.len() >= MOST_THREADS || self.threads.contains_key(&number)
            {
                continue;
            }
            let name = fs::read_to_string(format!("/proc/self/task/{number}/comm")).unwrap_or_default();
            let timer = create(number, self.period).map_err(|error| failed = Some(error)).ok();
            self.threads.insert(number, Thread { name: name.trim_end().into(), timer });
        }
        failed
    }

    pub(crate) fn name_of(&self, thread: i32) -> Arc<str> {
        self.threads.get(&thread).map_or_else(|| "".into(), |thread| thread.name.clone())
    }

    /// Samples no more; the names stay.
    pub(crate) fn stop(&mut self) {
        for timer in self.threads.values_mut().filter_map(|thread| thread.timer.take()) {
            // SAFETY: made by `create`, deleted once.
            unsafe { libc::timer_delete(timer) };
        }
        samples::end();
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The kernel's numbers of the threads of this process.
fn numbers() -> impl Iterator<Item = i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok())
}

/// A timer that sends SIGPROF to a thread each time it has run for `period`, with its number.
fn create(thread: i32, period: libc::timespec) -> io::Result<libc::timer_t> {
    let clock = (!thread << 3) | CPU_TIME_OF_THREAD;
    let mut timer: libc::timer_t = null_mut();
    // SAFETY: all zeros is a valid `sigevent`; the calls read and write these locals.
    unsafe {
        let mut event: libc::sigevent = zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = thread;
        let number: *mut c_void = without_provenance_mut(thread as usize);
        event.sigev_value = libc::sigval { sival_ptr: number };
        if libc::timer_create(clock, &raw mut event, &raw mut timer) != 0 {
            return Err(io::Error::last_os_error());
        }
        let times = libc::itimerspec { it_interval: period, it_value: period };
        if libc::timer_settime(timer, 0, &raw const times, null_mut()) != 0 {
            let error = io::Error::last_os_error();
            libc::timer_delete(timer);
            return Err(error);
        }
    }
    Ok(timer)
}
