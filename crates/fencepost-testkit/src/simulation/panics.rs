//! Panics of what runs in a simulation. A runtime keeps the panic of a task to itself, and the server makes an answer of
//! one; here each is a finding.

use std::{
    cell::RefCell,
    panic::{self, PanicHookInfo},
    sync::Once,
};

thread_local! {
    /// What has panicked on this thread, while somebody wants to know.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Collects the panics of this thread until it is dropped. All processes of a simulation run on one thread.
pub(super) struct Watching(());

impl Watching {
    /// The process's panic hook is replaced by one that does as the former one does, except on threads that are watched.
    pub(super) fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if !is_noted(info) {
                    before(info);
                }
            }));
        });
        SEEN.set(Some(Vec::new()));
        Self(())
    }

    /// The panics since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        SEEN.with_borrow_mut(|seen| seen.as_mut().map(std::mem::take).unwrap_or_default())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        SEEN.set(None);
    }
}

fn is_noted(info: &PanicHookInfo<'_>) -> bool {
    let note = |seen: &mut Option<Vec<String>>| {
        let Some(seen) = seen else { return false };
        let at = info.location().map_or_else(|| "somewhere".to_owned(), ToString::to_string);
        let what = info.payload_as_str().unwrap_or("something that is no text");
        seen.push(format!("{what}, at {at}"));
        true
    };
    SEEN.try_with(|seen| seen.try_borrow_mut().is_ok_and(|mut seen| note(&mut seen))).unwrap_or(false)
}
