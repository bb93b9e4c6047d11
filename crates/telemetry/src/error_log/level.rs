//! How serious a line is.

/// How serious a line is; nginx's names and order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The gateway cannot go on.
    Emergency = 0,
    /// Needs action now.
    Alert = 1,
    /// A part of the gateway failed.
    Critical = 2,
    /// A request or task failed.
    Error = 3,
    /// What may become a problem.
    Warn = 4,
    /// What happened and matters, such as a reload.
    Notice = 5,
    /// What happened.
    Info = 6,
    /// For developers.
    Debug = 7,
}

const LEVELS: [(Level, &str); 8] = [
    (Level::Emergency, "emerg"),
    (Level::Alert, "alert"),
    (Level::Critical, "crit"),
    (Level::Error, "error"),
    (Level::Warn, "warn"),
    (Level::Notice, "notice"),
    (Level::Info, "info"),
    (Level::Debug, "debug"),
];

impl Level {
    /// The level with this name in `error_log_level`.
    pub fn from_name(name: &str) -> Option<Self> {
        LEVELS.iter().find(|(_, known)| *known == name).map(|(level, _)| *level)
    }

    /// As in nginx's log: `emerg`, `alert`, `crit`, `error`, `warn`, `notice`, `info`, `debug`.
    pub fn name(self) -> &'static str {
        LEVELS.get(self as usize).map_or("error", |(_, name)| name)
    }
}
