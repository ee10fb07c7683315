use std::process::Command;

use fencepost_core::{
    Domain, Epoch, Grant, Token,
    fence::{Condition, LiveLease, Operation, Presented, Verdict},
};
use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed, WriteError};

use super::Ability;

const LEFT_OUT: &str = "the adapter does not have this method, and does not say that it lacks the ability";

/// What a write came to. The bytes are its result, as the receiver records it for a replay.
pub type Written = Result<Verdict<Vec<u8>>, WriteError<Cause>>;

/// One kind of receiver, for the suite: it makes resources and opens them.
///
/// A resource holds one value, some bytes, for each of its domains. How they are kept is the adapter's: a row, an
/// object, a file. Everything else than [`create`](Self::create), [`open`](Self::open) and three methods of a
/// [`Handle`] may be left out if [`lacks`](Self::lacks) says so; the suite fails where something is left out and not
/// named there.
pub trait Adapter: Sync {
    /// What the report calls the receiver.
    fn name(&self) -> String;

    /// The abilities that receiver or adapter do not have, each with the reason for the report.
    fn lacks(&self) -> &[(Ability, &'static str)] {
        &[]
    }

    /// Makes a resource that shares nothing with any other, guards it with the seed, and closes it again. No domain has a
    /// value yet. There is one domain where [`Ability::SeveralDomains`] is lacking.
    ///
    /// # Returns
    /// The place by which it is opened, also from another process where there are [`Ability::Processes`].
    ///
    /// # Errors
    /// When it could not be made; the scenario fails.
    fn create(&self, seed: &ReceiverSeed, domains: &[Domain]) -> Result<String, Cause>;

    /// Opens the resource, as another program would: nothing is shared with other handles but what lies at the place.
    /// Where a restore is noticed by a counter that callers have seen, a handle has seen what earlier ones have.
    ///
    /// # Errors
    /// When it could not be opened; the scenario fails.
    fn open(&self, place: &str) -> Result<Box<dyn Handle>, Cause>;

    /// Writes the value as code would that knows nothing of Fencepost. Needs [`Ability::Guard`].
    ///
    /// # Errors
    /// With the refusal, which is what the suite asks for.
    fn write_without_token(&self, place: &str, domain: &Domain, value: &[u8]) -> Result<(), Cause> {
        let _ = (place, domain, value);
        Err(LEFT_OUT.into())
    }

    /// Removes some of the receiver's records, in the n-th of the ways in which that can happen, counted from 0. Needs
    /// [`Ability::LostRecords`].
    ///
    /// # Returns
    /// What was removed; `None`, with nothing changed, where there is no n-th way. The suite goes on until it comes, and
    /// gives up after a hundred.
    ///
    /// # Errors
    /// When it did not work; the scenario fails.
    fn lose_records(&self, place: &str, way: usize) -> Result<Option<&'static str>, Cause> {
        let _ = (place, way);
        Err(LEFT_OUT.into())
    }

    /// Keeps a copy of the resource, for [`restore`](Self::restore). No handle is open. Needs
    /// [`Ability::RestoredBackup`].
    ///
    /// # Errors
    /// When it did not work; the scenario fails.
    fn back_up(&self, place: &str) -> Result<(), Cause> {
        let _ = place;
        Err(LEFT_OUT.into())
    }

    /// Puts the copy back in the place of the resource. No handle is open. Needs [`Ability::RestoredBackup`].
    ///
    /// # Errors
    /// When it did not work; the scenario fails.
    fn restore(&self, place: &str) -> Result<(), Cause> {
        let _ = place;
        Err(LEFT_OUT.into())
    }

    /// A command whose process calls [`child`](super::child) with an adapter of this kind. In a test binary that is the
    /// binary itself, told to run one test: `Command::new(current_exe()?).args(["--exact", "child", "--nocapture"])`.
    /// Needs [`Ability::Processes`].
    ///
    /// # Errors
    /// When there is none; the scenario fails.
    fn process(&self) -> Result<Command, Cause> {
        Err(LEFT_OUT.into())
    }
}

/// A resource, open.
///
/// A refusal is a verdict. An error says that there is none: [`WriteError`] and [`AdvanceError`] say which error is to be
/// chosen, and the suite holds the receiver to it. An asynchronous client blocks on a runtime of the adapter's.
pub trait Handle: Send {
    /// Sets the value of the domain `target` under the grant, at most once where an operation is named.
    ///
    /// `target` is the grant's domain, except in stories about a grant for another domain. The result, in the verdict,
    /// is whatever the receiver records; two values must not have the same.
    ///
    /// # Errors
    /// As [`WriteError`] says.
    fn write(&mut self, target: &Domain, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written;

    /// Raises the fence of the grant's domain.
    ///
    /// # Errors
    /// As [`AdvanceError`] says.
    fn advance(&mut self, grant: &Grant) -> Result<Verdict<()>, AdvanceError>;

    /// Looks at a value without a token, as anybody could: `None` where nothing was written yet.
    ///
    /// # Errors
    /// When it could not be read; the scenario fails.
    fn value(&mut self, domain: &Domain) -> Result<Option<Vec<u8>>, Cause>;

    /// Raises the fence of the grant's domain and reads the value. Needs [`Ability::FencedRead`].
    ///
    /// # Errors
    /// As [`WriteError`] says.
    fn read(&mut self, grant: &Grant) -> Result<Verdict<Option<Vec<u8>>>, WriteError<Cause>> {
        let _ = grant;
        Err(WriteError::Misused(LEFT_OUT))
    }

    /// Sets the values of all grants' domains to the same bytes, under all of the grants or none. Needs
    /// [`Ability::WriteAll`].
    ///
    /// # Errors
    /// As [`WriteError`] says.
    fn write_all(&mut self, grants: &[Grant], operation: Option<&Operation>, value: &[u8]) -> Written {
        let _ = (grants, operation, value);
        Err(WriteError::Misused(LEFT_OUT))
    }

    /// The same as [`write`](Self::write) without an operation or with one, by a mutation that fails after it has set the
    /// value. Needs [`Ability::FailingMutation`].
    ///
    /// # Errors
    /// `Mutation`, which is what the suite asks for.
    fn write_then_fail(&mut self, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        let _ = (grant, operation, value);
        Err(WriteError::Misused(LEFT_OUT))
    }

    /// The same as [`write`](Self::write), by a commit that succeeds while its answer does not arrive. Needs
    /// [`Ability::LostAnswer`].
    ///
    /// # Errors
    /// `Unknown` with the operation's id, which is what the suite asks for.
    fn write_and_lose_the_answer(&mut self, grant: &Grant, operation: &Operation, value: &[u8]) -> Written {
        let _ = (grant, operation, value);
        Err(WriteError::Misused(LEFT_OUT))
    }

    /// The same as [`write`](Self::write) under what need not be a grant: without a token, with a grant of another
    /// contract, with a signature. Needs [`Ability::Presentation`].
    ///
    /// # Errors
    /// As [`WriteError`] says.
    fn present(&mut self, target: &Domain, presented: &Presented<'_>, value: &[u8]) -> Written {
        let _ = (target, presented, value);
        Err(WriteError::Misused(LEFT_OUT))
    }

    /// Forgets the fences below `next` that are not of live leases and, where a horizon is given, the operation records
    /// born below it. Needs [`Ability::Collection`].
    ///
    /// # Errors
    /// When it did not work, or the receiver is closed.
    fn collect(&mut self, next: Token, live: &[LiveLease], horizon: Option<Token>) -> Result<(), Cause> {
        let _ = (next, live, horizon);
        Err(LEFT_OUT.into())
    }

    /// Learns epoch and floor, each where it is greater. Needs [`Ability::Telling`].
    ///
    /// # Errors
    /// When it did not work, or the receiver is closed.
    fn tell(&mut self, epoch: Epoch, floor: Token) -> Result<(), Cause> {
        let _ = (epoch, floor);
        Err(LEFT_OUT.into())
    }

    /// Opens the receiver again after it has closed, with next token and live leases as the seed says. Needs
    /// [`Ability::Recovery`].
    ///
    /// # Errors
    /// When it did not work.
    fn recover(&mut self, seed: &ReceiverSeed) -> Result<(), Cause> {
        let _ = seed;
        Err(LEFT_OUT.into())
    }

    /// What the receiver knows of a domain. Needs [`Ability::Inspection`].
    ///
    /// # Errors
    /// When it could not be read; the scenario fails.
    fn records(&mut self, domain: &Domain) -> Result<Records, Cause> {
        let _ = domain;
        Err(LEFT_OUT.into())
    }
}

/// What a receiver knows of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records {
    /// Whether anything is accepted.
    pub condition: Condition,
    /// The greatest epoch accepted.
    pub known_epoch: Epoch,
    /// The least token accepted for any domain.
    pub floor: Option<Token>,
    /// The least token accepted for a domain without a fence.
    pub unfenced_floor: Option<Token>,
    /// The highest token that the domain's fence was raised to.
    pub fence: Option<Token>,
    /// The bound below which operation records may have been collected.
    pub horizon: Option<Token>,
}
