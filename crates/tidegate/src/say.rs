//! Output for people that nothing depends on. If it cannot be written (full disk, closed pipe), the gateway carries on.

/// `println!` that ignores write errors instead of panicking.
macro_rules! say {
    ($($word:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($word)*);
    }};
}

/// `eprintln!` that ignores write errors instead of panicking.
macro_rules! complain {
    ($($word:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($word)*);
    }};
}

pub(crate) use {complain, say};
