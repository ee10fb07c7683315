//! Where a database lies: what tells a copy from the original.

use std::{fs, os::unix::fs::MetadataExt};

use fencepost_sql::sqlite::Identity;
use rusqlite::Connection;

/// The device and inode of the file that is at the connection's path **now**. A connection whose file was replaced
/// writes on into the old one, so the path is asked each time.
pub(crate) fn identity(connection: &Connection) -> Identity {
    match connection.path() {
        None | Some("") => Identity::MEMORY,
        // A file that is gone has no place, and that is another one than the place recorded.
        Some(path) => fs::metadata(path)
            .map_or(Identity::MEMORY, |metadata| Identity { device: metadata.dev(), inode: metadata.ino() }),
    }
}
