//! What tests are made of: faults that happen when a test says so.
//!
//! [`proxy`] stands between an HTTP client and its server and repeats, keeps back, drops and cuts what passes.

pub mod proxy;
