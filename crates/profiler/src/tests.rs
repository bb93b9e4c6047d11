use std::{
    hint::black_box,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::channel},
    thread,
};

use prost::Message;

use super::*;

/// One profile at a time; tests run at the same time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline(never)]
fn innermost(number: u64) -> u64 {
    (0..1000).fold(number, |sum, value| black_box(sum.wrapping_mul(31).wrapping_add(value)))
}

#[inline(never)]
fn outer(stop: &AtomicBool) -> u64 {
    let mut sum = 0;
    while !stop.load(Ordering::Relaxed) {
        sum = innermost(sum);
    }
    sum
}

/// A profile of a thread that computes.
fn profile_of_a_busy_thread(form: Form) -> Vec<u8> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    let busy = thread::Builder::new().name("busy; thread".to_owned()).spawn(move || black_box(outer(&asked)));
    let (_stays, left) = channel();
    let taken = thread::spawn(move || take(Duration::from_millis(500), form, &left)).join();
    stop.store(true, Ordering::Relaxed);
    busy.expect("started").join().expect("ends");
    taken.expect("ends").expect("a profile")
}

#[test]
fn functions_are_named_with_their_callers() {
    let _alone = alone();
    let text = String::from_utf8(profile_of_a_busy_thread(Form::Folded)).expect("text");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("busy: thread;")).collect();
    let of = |line: &&str| {
        line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok()).unwrap_or_default()
    };
    let all: u64 = lines.iter().map(of).sum();
    let whole = lines.iter().filter(|line| line.contains("::outer;") && line.contains("::innermost"));
    let named: u64 = whole.map(of).sum();
    assert!(all >= 5, "{all} samples\n{text}");
    assert!(named * 10 >= all * 8, "{named} of {all} samples\n{text}");
}

#[test]
fn pprof_has_the_same_in_its_tables() {
    let _alone = alone();
    let mut bytes = Vec::new();
    let compressed = profile_of_a_busy_thread(Form::Pprof);
    io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*compressed), &mut bytes).expect("gzip");
    let document = pprof::Document::decode(&*bytes).expect("a profile");
    let text =
        |number: i64| document.string_table.get(number as usize).map(String::as_str).unwrap_or_default();
    assert_eq!(text(0), "");
    let kinds: Vec<_> = document.sample_type.iter().map(|kind| (text(kind.kind), text(kind.unit))).collect();
    assert_eq!(kinds, [("samples", "count"), ("cpu", "nanoseconds")]);
    let busy = |sample: &&pprof::Sample| sample.label.iter().any(|label| text(label.text) == "busy; thread");
    let sample = document.sample.iter().find(busy).expect("a sample of the thread");
    let functions: Vec<&str> = sample
        .location_id
        .iter()
        .filter_map(|id| document.location.get(*id as usize - 1))
        .flat_map(|location| &location.line)
        .filter_map(|line| document.function.get(line.function_id as usize - 1))
        .map(|function| text(function.name))
        .collect();
    assert!(functions.iter().any(|name| name.ends_with("::outer")), "{functions:?}");
    assert!(document.mapping.iter().any(|mapping| text(mapping.filename).contains("tidegate_profiler")));
    assert!(document.duration_nanos >= 500_000_000, "{}", document.duration_nanos);
}

#[test]
fn one_at_a_time_and_none_without_a_reader() {
    let _alone = alone();
    let (stays, left) = channel();
    let first = thread::spawn(move || take(Duration::from_secs(60), Form::Folded, &left));
    while !RUNNING.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    let (_other, other_left) = channel();
    let second = thread::spawn(move || take(Duration::from_secs(60), Form::Folded, &other_left)).join();
    assert!(matches!(second, Ok(Err(Refused::Busy))));
    drop(stays);
    assert!(matches!(first.join(), Ok(Err(Refused::Left))));
    assert!(!RUNNING.load(Ordering::Relaxed));
}
