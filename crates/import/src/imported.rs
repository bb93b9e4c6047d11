//! What a configuration became.

use crate::{Listeners, Output, Report, report::At};

/// What a configuration became.
#[derive(Debug, Default)]
pub struct Imported {
    /// The objects.
    pub output: Output,
    /// What became of each part.
    pub report: Report,
    /// Where the other gateway listens; nginx.
    pub listeners: Option<Listeners>,
    /// Where the gateway has to listen, because routes answer there only; nginx.
    pub needed: Listeners,
    /// What may be asked of the other gateway and of this one to compare their answers; nginx.
    pub samples: Vec<Sample>,
}

/// A request that a line of the configuration suggests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The location that suggests it.
    pub at: At,
    /// The field `Host`.
    pub host: String,
    /// Path, as a request has it.
    pub target: String,
}

/// What `work` makes, and whether an answer changes by it. Its lines are in the report then.
pub(crate) fn aside<T>(imported: &mut Imported, work: impl FnOnce(&mut Imported) -> T) -> (T, bool) {
    let outer = std::mem::take(&mut imported.report);
    let made = work(imported);
    let own = std::mem::replace(&mut imported.report, outer);
    let differs = !own.is_exact();
    imported.report.absorb(own);
    (made, differs)
}
