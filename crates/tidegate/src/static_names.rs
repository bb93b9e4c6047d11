//! Names of hosts in a program that is linked statically: the C library looks them up in /etc/hosts and in DNS by itself.
//!
//! Modules that /etc/nsswitch.conf names besides (mdns, resolve, myhostname) are libraries of the machine's own C library,
//! which is another version than the one in this program. Loading one would bring a second C library into the process.

use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn __nss_configure_lookup(database: *const c_char, modules: *const c_char) -> c_int;
}

/// Each database that getaddrinfo(3) reads, and the modules that are linked in.
const DATABASES: [(&CStr, &CStr); 3] =
    [(c"hosts", c"files dns"), (c"services", c"files"), (c"protocols", c"files")];

/// Before there are threads.
pub(crate) fn use_own_modules() {
    for (database, modules) in DATABASES {
        // SAFETY: both are texts that end in NUL and live as long as the program; the function copies what it keeps.
        // It fails for databases that it does not know; then nsswitch.conf decides, as without it.
        let _ = unsafe { __nss_configure_lookup(database.as_ptr(), modules.as_ptr()) };
    }
}
