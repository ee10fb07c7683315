//! The receiver on real SQLite files.

mod bypass;
mod support;
