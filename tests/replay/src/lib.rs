//! Holds no code: the corpora of the fuzz targets are replayed by the test `replay`.
