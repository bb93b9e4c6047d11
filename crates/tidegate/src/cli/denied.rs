//! What the system refuses a user.

/// What to do where the system says no, unless the message has it already.
pub(super) fn remedy(error: &anyhow::Error) -> String {
    // As the system words it: faults of config.yaml are texts.
    let text = format!("{error:#}");
    if !text.contains("Permission denied") || text.contains("CAP_") || text.contains(';') {
        return String::new();
    }
    let user = rustix::process::geteuid().as_raw();
    format!("; user {user} may not: make it the owner (chown -R {user} FOLDER), or run this as the owner")
}
