//! The coordinator's process: the real server, handed its connections, in front of the simulated coordinator.

use fencepost_server::{Options, fuzzing::Door};
use tokio::sync::mpsc;

use super::{calls::Calls, outbox::Outbox, pipe::Pipe, process::Process};

pub(super) struct Server {
    pub(super) process: Process,
    pub(super) outbox: Outbox,
    accepted: mpsc::UnboundedSender<Pipe>,
}

impl Server {
    pub(super) fn new(calls: Calls) -> Self {
        let (accepted, incoming) = mpsc::unbounded_channel();
        let process = Process::new(calls.clock.clone(), serve(calls, incoming));
        Self { process, outbox: Outbox::default(), accepted }
    }

    /// A connection has come.
    pub(super) fn accept(&self, pipe: Pipe) {
        // Nobody takes it any more where the server has failed, and dropping it closes it.
        let _ = self.accepted.send(pipe);
    }
}

async fn serve(calls: Calls, mut incoming: mpsc::UnboundedReceiver<Pipe>) {
    let Ok(door) = Door::open(calls, Options::default()).await else { return };
    while let Some(pipe) = incoming.recv().await {
        drop(tokio::spawn(door.converse(pipe, true)));
    }
}
