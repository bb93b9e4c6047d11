//! The gateway's one binary. What it can do is in `cli`, one file for each verb.

mod boot;
mod cli;
mod pages;
mod say;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod static_names;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pages::use_small_pages();
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    static_names::use_own_modules();
    cli::main()
}
