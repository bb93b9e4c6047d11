//! Metrics of modules, on the gateway's metrics page: `wasm_NAME{plugin="..."}`.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

use parking_lot::RwLock;
use tidegate_telemetry::metrics::{Kind, TextWriter};

use super::room;

/// Metrics of one plugin.
const MAX_METRICS: usize = 1000;
const MAX_NAME_BYTES: usize = 256;

/// Of a histogram whose unit is not known.
const BOUNDS: [u64; 19] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 600_000,
    1_800_000, 3_600_000,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Counter,
    Gauge,
    Histogram,
}

impl Sort {
    /// `proxy_metric_type_t`
    pub(super) fn of(number: u32) -> Option<Sort> {
        [Sort::Counter, Sort::Gauge, Sort::Histogram].get(number as usize).copied()
    }

    fn kind(self) -> Kind {
        match self {
            Sort::Counter => Kind::Counter,
            Sort::Gauge => Kind::Gauge,
            Sort::Histogram => Kind::Histogram,
        }
    }
}

/// Why a metric did not change.
pub(super) enum Fault {
    Unknown,
    /// A counter cannot fall, and a histogram only records.
    Unfit,
}

struct Metric {
    plugin: &'static str,
    /// As a page may have it.
    name: String,
    sort: Sort,
    /// The value, or the sum of a histogram.
    value: AtomicI64,
    count: AtomicU64,
    within: [AtomicU64; BOUNDS.len()],
}

static METRICS: LazyLock<RwLock<Vec<Arc<Metric>>>> = LazyLock::new(RwLock::default);

/// Signs that names of metrics do not have become `_`.
fn page_name(name: &str) -> String {
    let fits = |sign: char| if sign.is_ascii_alphanumeric() || sign == '_' { sign } else { '_' };
    name.chars().take(MAX_NAME_BYTES).map(fits).collect()
}

/// The number of a metric, which all instances share. `None`: the limit is reached, or a metric of another type has the name.
pub(super) fn define(plugin: &'static str, name: &str, sort: Sort) -> Option<u32> {
    let name = page_name(name);
    let mut metrics = METRICS.write();
    let same_name = || metrics.iter().zip(1..).filter(|(metric, _)| metric.name == name);
    if same_name().any(|(metric, _)| metric.sort != sort) || name.is_empty() {
        return None;
    }
    if let Some((_, number)) = same_name().find(|(metric, _)| metric.plugin == plugin) {
        return Some(number);
    }
    if metrics.iter().filter(|metric| metric.plugin == plugin).count() >= MAX_METRICS {
        return None;
    }
    let (value, count) = (AtomicI64::new(0), AtomicU64::new(0));
    metrics.push(Arc::new(Metric { plugin, name, sort, value, count, within: Default::default() }));
    u32::try_from(metrics.len()).ok()
}

fn metric(number: u32) -> Option<Arc<Metric>> {
    METRICS.read().get((number as usize).checked_sub(1)?).cloned()
}

pub(super) fn increment(number: u32, delta: i64) -> Result<(), Fault> {
    let metric = metric(number).ok_or(Fault::Unknown)?;
    match metric.sort {
        Sort::Counter if delta < 0 => return Err(Fault::Unfit),
        Sort::Histogram => return Err(Fault::Unfit),
        Sort::Counter | Sort::Gauge => metric.value.fetch_add(delta, Relaxed),
    };
    Ok(())
}

pub(super) fn record(number: u32, value: u64) -> Result<(), Fault> {
    let metric = metric(number).ok_or(Fault::Unknown)?;
    let signed = value.cast_signed();
    match metric.sort {
        Sort::Gauge => metric.value.store(signed, Relaxed),
        Sort::Counter => {
            metric.value.fetch_max(signed, Relaxed);
        }
        Sort::Histogram => {
            if let Some(at) = BOUNDS.iter().position(|bound| value <= *bound) {
                metric.within[at].fetch_add(1, Relaxed);
            }
            metric.count.fetch_add(1, Relaxed);
            metric.value.fetch_add(signed, Relaxed);
        }
    }
    Ok(())
}

pub(super) fn get(number: u32) -> Option<u64> {
    metric(number).map(|metric| match metric.sort {
        Sort::Histogram => metric.count.load(Relaxed),
        Sort::Counter | Sort::Gauge => metric.value.load(Relaxed).cast_unsigned(),
    })
}

/// Writes what modules have counted; `name` puts the prefix of the page before a family.
pub fn collect(writer: &mut TextWriter, name: &dyn Fn(&str) -> String) {
    let held = room::held();
    if held > 0 {
        let family = name("webassembly_memory_bytes");
        writer.family(&family, "Memory of instances of plugins in WebAssembly (wasm.memory)", Kind::Gauge);
        writer.sample(&family, &[], held as f64);
    }
    let mut metrics: Vec<Arc<Metric>> = METRICS.read().clone();
    metrics.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.plugin.cmp(b.plugin)));
    let mut last: Option<&str> = None;
    for metric in &metrics {
        let family = name(&format!("wasm_{}", metric.name));
        if last.replace(&metric.name) != Some(metric.name.as_str()) {
            writer.family(&family, "Of plugins in WebAssembly", metric.sort.kind());
        }
        let plugin = ("plugin", metric.plugin);
        let value = metric.value.load(Relaxed) as f64;
        if metric.sort != Sort::Histogram {
            writer.sample(&family, &[plugin], value);
            continue;
        }
        let (bucket, mut below) = (format!("{family}_bucket"), 0);
        for (bound, count) in BOUNDS.iter().zip(&metric.within) {
            below += count.load(Relaxed);
            let bound = writer.bound(*bound as f64);
            writer.sample(&bucket, &[plugin, ("le", &bound)], below as f64);
        }
        let count = metric.count.load(Relaxed) as f64;
        writer.sample(&bucket, &[plugin, ("le", "+Inf")], count);
        writer.sample(&format!("{family}_sum"), &[plugin], value);
        writer.sample(&format!("{family}_count"), &[plugin], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plugin_has_its_metrics_and_a_name_one_type() {
        let counter = define("m1", "a.b", Sort::Counter).expect("a metric");
        assert_eq!(define("m1", "a_b", Sort::Counter), Some(counter));
        assert_ne!(define("m2", "a.b", Sort::Counter), Some(counter));
        assert_eq!(define("m2", "a.b", Sort::Gauge), None);
        assert!(increment(counter, 2).is_ok());
        assert!(matches!(increment(counter, -1), Err(Fault::Unfit)));
        assert_eq!(get(counter), Some(2));
        assert!(matches!(record(u32::MAX, 1), Err(Fault::Unknown)));
    }
}
