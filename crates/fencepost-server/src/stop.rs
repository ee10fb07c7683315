use tokio::sync::watch;

/// Tells a running server to stop. Dropping it stops the server too.
pub(crate) struct Stop(watch::Sender<bool>);

/// Learns when the server begins to stop.
#[derive(Clone)]
pub(crate) struct Stopping(watch::Receiver<bool>);

pub(crate) fn stop() -> (Stop, Stopping) {
    let (sender, receiver) = watch::channel(false);
    (Stop(sender), Stopping(receiver))
}

impl Stop {
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Stopping {
    /// Waits until the server begins to stop; at once where it has.
    pub(crate) async fn begun(&mut self) {
        // An error means that the server is gone altogether.
        let _ = self.0.wait_for(|begun| *begun).await;
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }
}
