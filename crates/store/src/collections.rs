//! From a whole document (`routes: [...]`, `upstreams: [...]`) to objects, and from there to what changed.
