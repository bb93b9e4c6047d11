//! What people may read and nothing depends on: where it cannot be written, on a full disk or to a pipe that nobody reads, the
//! gateway goes on.

/// As `println!`, which panics then.
macro_rules! say {
    ($($word:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($word)*);
    }};
}

/// As `eprintln!`, which panics then.
macro_rules! complain {
    ($($word:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($word)*);
    }};
}

pub(crate) use {complain, say};
