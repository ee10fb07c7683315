//! The disk alone: what any durable step costs at least.

use std::{fs::File, io::Write, path::Path, time::Duration};

use anyhow::Result;

use crate::round::{Turn, repeat};

/// Appends 100 bytes to a file and syncs them, again and again.
pub(crate) struct Append {
    file: File,
}

impl Append {
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        Ok(Self { file: File::create(dir.join("raw"))? })
    }

    pub(crate) fn turn(&mut self, turn: Duration) -> Result<Turn> {
        repeat(turn, || {
            self.file.write_all(&[b'x'; 100])?;
            self.file.sync_data()?;
            Ok(())
        })
    }
}
