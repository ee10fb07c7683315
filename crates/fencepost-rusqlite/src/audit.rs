use std::fmt;

use rusqlite::Connection;

use crate::MaintenanceError;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Notice,
    /// The promise is weaker than it looks.
    Warning,
    /// There is a way around the guard, or the receiver accepts nothing.
    Critical,
}
