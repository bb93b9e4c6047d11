//! The blocks of README.md, docs and the pages beside them are run, in the order in which a reader meets them.
//!
//! A page is typed from top to bottom into one shell, in an empty folder, with `tidegate` in the PATH and in namespaces of its
//! own where the system allows it: the ports are the documented ones, `/srv` is empty, and everything that was started ends
//! with the page. Blocks of `sh` are typed, each `$` line of a `console` block as well. Every other block says in a comment before
//! its fence what it is; the comment is a part of the page, the same in both languages:
//!
//! | `<!--` | |
//! |---|---|
//! | `given` and commands | typed before the block: what a reader has already |
//! | `file NAME` and commands | the block is written to this file, and the commands must accept it |
//! | `output` and commands | what these commands print, or the block before if there are none |
//! | `meanwhile` and commands | typed while the block's last `tidegate run`, `proxy`, `serve` or `echo` serves |
//! | `slow` | only typed by `make test-all` |
//! | `first run` | an empty folder, and a shell of its own |
//! | `after make run` | in a checkout where `make run` serves: `operations::first_run` |
//! | `not run: REASON` | |
//!
//! Lines that begin with `#=> ` say what the commands before them print; so does what stands below a `$` line. `...` stands for
//! anything, and a time for any time. Where nothing is shown, each command has to succeed; calls of the Admin API have to
//! in any case, but in `console` blocks. Commands of this shell for comments: `loads FILE`, a config.yaml that is accepted without
//! a warning; `gateway [FOLDER]`, which starts one, after `tidegate init` where there is no config.yaml; `afresh`, which stops it and
//! enters another empty folder. `$REPOSITORY` is the checkout.
//!
//! `PAGES=guide/tls,migrate/kong` runs these pages only.

pub(crate) mod block;
mod guides;
pub(crate) mod network;
pub(crate) mod script;
pub(crate) mod transcript;
