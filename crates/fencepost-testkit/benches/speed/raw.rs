//! The disk alone: what any durable step costs at least.

use std::{
    fs::File,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::round::{Turn, median, repeat};

/// Appends 100 bytes to a file and syncs them, again and again.
pub(crate) struct Append {
    file: File,
}

impl Append {
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        Ok(Self { file: File::create(dir.join("raw"))? })
    }

    /// The same with a pause before each append, as long as a client takes to come back.
    pub(crate) fn paced(&mut self, pause: Duration, times: usize) -> Result<f64> {
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            std::thread::sleep(pause);
            let before = Instant::now();
            self.file.write_all(&[b'x'; 100])?;
            self.file.sync_data()?;
            took.push(before.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(took.into_iter()))
    }

    pub(crate) fn turn(&mut self, turn: Duration) -> Result<Turn> {
        repeat(turn, || {
            self.file.write_all(&[b'x'; 100])?;
            self.file.sync_data()?;
            Ok(())
        })
    }
}
