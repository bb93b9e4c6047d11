//! Holds no code: the black-box tests are the test binary `e2e`.
