//! What both forms are written from.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

pub(crate) struct Profile {
    pub at: SystemTime,
    pub length: Duration,
    /// Samples per second of CPU time.
    pub frequency: u64,
    /// Samples that are not in `stacks`.
    pub lost: u64,
    pub stacks: Vec<Stack>,
}

pub(crate) struct Stack {
    /// The thread's name.
    pub thread: Arc<str>,
    /// Innermost first.
    pub frames: Vec<Arc<Frame>>,
    pub samples: u64,
}

/// An address and what is there.
pub(crate) struct Frame {
    pub address: u64,
    /// `None`: in no file.
    pub module: Option<Arc<ModuleName>>,
    /// Without generic hashes; `None`: the file does not say.
    pub function: Option<String>,
}

/// A file in memory.
pub(crate) struct ModuleName {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: String,
    pub build_id: String,
    /// What is subtracted from an address to find it in the file.
    pub bias: u64,
}

impl Frame {
    /// For people: the function, or where it is.
    pub(crate) fn label(&self) -> String {
        match (&self.function, &self.module) {
            (Some(function), _) => function.clone(),
            (None, Some(module)) => {
                let name = module.path.rsplit('/').next().unwrap_or_default();
                format!("{name}+{:#x}", self.address.wrapping_sub(module.bias))
            }
            (None, None) => format!("{:#x}", self.address),
        }
    }
}
