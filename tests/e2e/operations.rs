//! Starting, stopping, upgrades, the store, the Admin API, logs: what an operator sees.

pub(crate) mod admin_bounds;
mod admin_keys;
mod admin_lists;
mod api_document;
mod audit;
mod command_line;
mod config_diff;
mod console;
mod control_documents;
mod damaged_store;
mod first_errors;
mod first_run;
mod full_disk;
mod history;
mod init;
mod last_good;
mod log_floods;
mod lost_lines;
mod lost_store;
mod memory_pages;
mod monitoring;
mod nginx;
mod permissions;
mod plugin_list;
mod printing;
mod priorities;
mod profiles;
mod sessions;
mod stall;
mod standard_error;
mod stats;
#[cfg(debug_assertions)]
mod stuck_worker;
mod unwritable;
mod upgrade;
mod welcome;
mod written_files;
