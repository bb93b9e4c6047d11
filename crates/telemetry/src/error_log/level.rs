//! How serious a line is.

/// How serious a line is; nginx's names and order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Emergency = 0,
    Alert = 1,
    Critical = 2,
    Error = 3,
    Warn = 4,
    Notice = 5,
    Info = 6,
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

    pub fn name(self) -> &'static str {
        LEVELS.get(self as usize).map_or("error", |(_, name)| name)
    }
}
