//! The disk alone: what any durable step costs at least.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::mpsc::{Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::sync::oneshot;

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
            thread::sleep(pause);
            let before = Instant::now();
            self.once()?;
            took.push(before.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(took.into_iter()))
    }

    pub(crate) fn turn(&mut self, turn: Duration) -> Result<Turn> {
        repeat(turn, || Ok(self.once()?))
    }

    fn once(&mut self) -> io::Result<()> {
        self.file.write_all(&[b'x'; 100])?;
        self.file.sync_data()
    }
}

/// One thread that appends and syncs for all who wait, as the coordinator's writer does: what has come meanwhile shares
/// the next append.
#[derive(Clone)]
pub(crate) struct GroupCommit {
    to_writer: Sender<oneshot::Sender<()>>,
}

impl GroupCommit {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let mut append = Append::new(dir)?;
        let (to_writer, inbox) = channel::<oneshot::Sender<()>>();
        thread::spawn(move || {
            while let Ok(first) = inbox.recv() {
                let waiting: Vec<_> = std::iter::once(first).chain(inbox.try_iter()).collect();
                append.once().expect("the disk takes 100 bytes");
                for one in waiting {
                    // Whoever has gone away since needs no answer.
                    let _ = one.send(());
                }
            }
        });
        Ok(Self { to_writer })
    }

    /// Joins the next commit; what is handed back is there when it is durable.
    pub(crate) fn join(&self) -> oneshot::Receiver<()> {
        let (to, durable) = oneshot::channel();
        self.to_writer.send(to).expect("the writer lives as long as its senders");
        durable
    }
}
