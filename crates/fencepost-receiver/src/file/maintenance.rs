use fencepost_core::{
    Domain, Epoch, Invalid, Issuer, RecoveryId, Token,
    fence::{Closure, Condition, Decision, LiveLease, Presented, decide},
    sabotage,
};

use super::{
    Content, FileReceiver, Trouble, beside,
    held::{Entrance, Held, Unsaved, glance, lock, make_lock, mark, read_sidecar},
    place::{Identity, Place},
    sidecar::Sidecar,
    staged::content_of,
};
use crate::{
    ReceiverSeed,
    adapter::{first_counter, fresh_recovery_id},
};

/// Why guarding, unguarding, recovering, collecting or looking did not work. Nothing was changed, except after `Unknown`.
/// All of them may be repeated, and end in the same state as done once.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The input breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The receiver needs issuer, epoch and live leases from the coordinator, or a floor by hand.
    #[error("issuer, epoch and live leases are needed: from the coordinator, or by hand")]
    SeedNeeded,
    /// The file belongs to another issuer.
    #[error("this file takes grants of issuer {here}, not of {presented}")]
    WrongIssuer {
        /// The receiver's issuer.
        here: Issuer,
        /// The seed's issuer.
        presented: Issuer,
    },
    /// The file belongs to another domain.
    #[error("this file belongs to domain {here}, not to {presented}")]
    WrongDomain {
        /// The receiver's domain.
        here: Domain,
        /// The domain asked for.
        presented: Domain,
    },
    /// The receiver is closed.
    #[error("the receiver is closed ({0}): {fix}", fix = fix(*.0))]
    Closed(Closure),
    /// The storage is no longer the one that was noted before the recovery was begun.
    #[error("the receiver is no longer the one that this recovery was begun for: begin again")]
    Overtaken,
    /// The file or a file beside it could not be used. Nothing was changed.
    #[error("nothing was changed: {0}")]
    Unavailable(#[from] Trouble),
    /// The sidecar was replaced, but whether that survives a power failure is not known. Repeat the call.
    #[error("it may have happened, the answer was lost: {0}")]
    Unknown(#[source] Trouble),
}

pub(crate) const fn fix(why: Closure) -> &'static str {
    match why {
        Closure::NotGuarded => "guard it: fencepost guard file:PATH --domain NAME",
        Closure::MetadataMissing => {
            "recover it with what the coordinator says is live: fencepost recover file:PATH --domain NAME"
        }
        Closure::FenceMissing
        | Closure::OtherIncarnation
        | Closure::WentBack
        | Closure::Recovering
        | Closure::ByOperator => "recover it with what the coordinator says is live: fencepost recover file:PATH",
    }
}

impl MaintenanceError {
    /// Whether something may have been changed.
    #[must_use]
    pub const fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

impl From<Unsaved> for MaintenanceError {
    fn from(unsaved: Unsaved) -> Self {
        match unsaved {
            Unsaved::Nothing(trouble) => Self::Unavailable(trouble),
            Unsaved::Perhaps(trouble) => Self::Unknown(trouble),
        }
    }
}

/// What guarding has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The domain that the file belongs to.
    pub domain: Domain,
    /// Whether the file became a receiver by it.
    pub receiver_created: bool,
    /// Live leases of the seed whose token this receiver would not accept: their holders have to acquire anew.
    pub refused: Vec<LiveLease>,
}

/// What a collection has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Fences removed: none or one. The unfenced floor stands in its place and is not lower.
    pub fences: u64,
    /// Operation records removed.
    pub operations: u64,
    /// Live leases whose token this receiver no longer accepts: their holders have to acquire anew.
    pub refused: Vec<LiveLease>,
}

/// Which storage a receiver is: noted before a recovery is begun, compared when it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The random id of the last recovery; `None` where the sidecar is missing or damaged.
    pub recovery: Option<RecoveryId>,
    /// Which lock file there is now; `None` where there is none.
    pub place: Option<Identity>,
    /// The mutation counter, 0 where there is none.
    pub counter: u64,
}

/// What a recovery has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The incarnation that it has now.
    pub incarnation: Incarnation,
    /// Fences dropped, because they are below the coordinator's next token and not of a live lease: none or one.
    pub fences_dropped: u64,
    /// Live leases whose token this receiver would not accept: their holders have to acquire anew.
    pub refused: Vec<LiveLease>,
}

/// What a file's receiver knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether it accepts anything, and why not.
    pub condition: Condition,
    /// The coordinator whose grants it accepts.
    pub issuer: Issuer,
    /// The domain that the file belongs to.
    pub domain: Domain,
    /// The greatest epoch it accepts.
    pub known_epoch: Epoch,
    /// The least token accepted at all.
    pub floor: Option<Token>,
    /// The least token accepted while there is no fence.
    pub unfenced_floor: Option<Token>,
    /// The highest token it was raised to.
    pub fence: Option<Token>,
    /// The bound below which operation records may have been collected.
    pub horizon: Option<Token>,
    /// How many operations are recorded.
    pub operations: u64,
    /// Whether a write was under way or was left behind; the next call that takes the lock finishes or drops it.
    pub pending: bool,
    /// What the last accepted write left, or what was there when the file was guarded.
    pub content: Option<Content>,
    /// Which storage it is.
    pub incarnation: Incarnation,
}

impl FileReceiver {
    /// Makes the file a receiver that belongs to `domain`, or teaches the one that it is. The file need not exist yet,
    /// its folder must.
    ///
    /// The first guard needs a seed. Later ones may bring one: what it knows is learned where it is greater, and nothing is
    /// ever lowered.
    ///
    /// # Errors
    /// When the file is not usable, the receiver is closed, or of another issuer or domain. Nothing was changed then.
    pub fn guard(&self, domain: &Domain, seed: Option<&ReceiverSeed>) -> Result<Guarded, MaintenanceError> {
        let place = self.place()?;
        place.metadata()?;
        let (created, mut held) = match self.enter(&place)? {
            Entrance::Open(held) => (false, *held),
            Entrance::Closed(Closure::NotGuarded) => self.first_guard(&place, domain, seed)?,
            Entrance::Closed(why) => return Err(MaintenanceError::Closed(why)),
        };
        same_domain(&held.sidecar, domain)?;
        let mut refused = Vec::new();
        if let Some(seed) = seed {
            same_issuer(&held.sidecar, seed)?;
            learn(&mut held.sidecar, seed);
            refused = take_live(&mut held.sidecar, &seed.live)?;
            // Where there is no fence, what is older than the coordinator's next token and not live is refused.
            held.sidecar.unfenced_floor = held.sidecar.unfenced_floor.max(seed.next);
        }
        self.save(&place, &mut held)?;
        mark(&place, &held.lock)?;
        place.sync_folder().map_err(MaintenanceError::Unknown)?;
        Ok(Guarded { domain: domain.clone(), receiver_created: created, refused })
    }

    /// A receiver where there is none, or the one that was unguarded.
    fn first_guard(
        &self,
        place: &Place,
        domain: &Domain,
        seed: Option<&ReceiverSeed>,
    ) -> Result<(bool, Held), MaintenanceError> {
        let others = beside::refuse_others(place);
        if lock_metadata(place)?.is_none() {
            // Nobody is at work here, and a refusal leaves no lock file behind.
            others?;
        }
        let lock = make_lock(place, self.wait)?;
        let found = read_sidecar(place)?;
        if found.is_none() && !lock.marked {
            beside::refuse_others(place)?;
        }
        let (created, sidecar) = match (found, seed) {
            (Some(Ok(mut sidecar)), _) => {
                // Guarded by somebody else meanwhile, or unguarded before: then what it knows holds on.
                sidecar.closed = sidecar.closed.filter(|why| *why != Closure::NotGuarded);
                sidecar.stored = content_of(&place.file)?;
                match sidecar.condition(lock.identity, self.seen().greatest()) {
                    Condition::Open => (false, sidecar),
                    Condition::Closed(why) => return Err(MaintenanceError::Closed(why)),
                }
            }
            (Some(Err(why)), _) => return Err(MaintenanceError::Closed(why)),
            (None, _) if lock.marked => return Err(MaintenanceError::Closed(Closure::MetadataMissing)),
            (None, None) => return Err(MaintenanceError::SeedNeeded),
            (None, Some(seed)) => {
                let (issuer, domain, epoch) = (seed.issuer.clone(), domain.clone(), seed.known_epoch);
                let mut sidecar = Sidecar::new(issuer, domain, epoch, fresh_recovery_id(), lock.identity);
                sidecar.counter = first_counter();
                sidecar.stored = content_of(&place.file)?;
                if beside::metadata(&place.spare_sidecar())?.is_some() {
                    // Sidecar and lock file are gone, but there were some, and records in them.
                    forget_born_before(&mut sidecar, seed);
                }
                (true, sidecar)
            }
        };
        let mut held = Held { sidecar, lock };
        held.settle(place)?;
        Ok((created, held))
    }

    /// Ends the guard: fenced writes are refused until the file is guarded again. The sidecar stays, so guarding it again
    /// re-admits nothing.
    ///
    /// # Errors
    /// When it has no guard, or is closed for another reason.
    pub fn unguard(&self) -> Result<(), MaintenanceError> {
        let place = self.place()?;
        let mut held = self.entered(&place)?;
        held.sidecar.closed = Some(Closure::NotGuarded);
        Ok(self.save(&place, &mut held)?)
    }

    /// Reads what the receiver knows. It waits for nobody and changes nothing.
    ///
    /// # Errors
    /// Closed, with the reason, where there is no sidecar to read.
    pub fn status(&self) -> Result<Status, MaintenanceError> {
        let place = self.place()?;
        place.metadata()?;
        // In this order: where a first guard is under way, there is a lock file before there is a sidecar.
        let sidecar = glance(&place)?;
        let incarnation = self.incarnation()?;
        let sidecar = match sidecar {
            Some(sidecar) => sidecar.map_err(MaintenanceError::Closed)?,
            None => return Err(MaintenanceError::Closed(self.without_sidecar(&place)?)),
        };
        let condition = match incarnation.place {
            Some(here) => sidecar.condition(here, self.seen().greatest()),
            None => Condition::Closed(Closure::OtherIncarnation),
        };
        Ok(Status {
            condition,
            issuer: sidecar.issuer,
            domain: sidecar.domain,
            known_epoch: sidecar.known_epoch,
            floor: sidecar.floor,
            unfenced_floor: sidecar.unfenced_floor,
            fence: sidecar.fence,
            horizon: sidecar.horizon,
            operations: sidecar.operations.len() as u64,
            pending: sidecar.pending.is_some(),
            content: sidecar.stored.map(|stored| stored.content),
            incarnation,
        })
    }

    pub(crate) fn without_sidecar(&self, place: &Place) -> Result<Closure, Trouble> {
        let path = place.lock();
        let Some(lock) = beside::read(&path)? else { return Ok(Closure::NotGuarded) };
        if !beside::is_lock(&lock, &path)? {
            return Err(beside::not_ours(&path));
        }
        let marked = lock.metadata().map_err(Trouble::io("looking at", &path))?.len() > 0;
        Ok(if marked { Closure::MetadataMissing } else { Closure::NotGuarded })
    }

    /// Which storage this receiver is at this moment.
    ///
    /// # Errors
    /// When it cannot be read. Missing files are part of the answer.
    pub fn incarnation(&self) -> Result<Incarnation, MaintenanceError> {
        let place = self.place()?;
        let identity = lock_metadata(&place)?.map(|metadata| Identity::of(&metadata));
        Ok(incarnation_of(glance(&place)?.and_then(Result::ok).as_ref(), identity))
    }

    /// Forgets the fence if nobody holds the domain and, where a horizon is given, old operation records.
    ///
    /// `next` and `live` come from one consistent read of the coordinator that excludes grants in flight. Every step can
    /// only refuse more: live leases get their fence by the ordinary decision, and the unfenced floor rises to `next`
    /// before a fence is removed. An operation born below the horizon is answered `OperationTooOld` from then on, and one
    /// without `born` that was applied under an older token than it may take effect again: choose a horizon that is older
    /// than any retry. Doing it twice or late is harmless.
    ///
    /// # Errors
    /// When the receiver is closed. Nothing was changed then.
    pub fn collect(
        &self,
        next: Token,
        live: &[LiveLease],
        horizon: Option<Token>,
    ) -> Result<Collected, MaintenanceError> {
        let place = self.place()?;
        let mut held = self.entered(&place)?;
        held.sidecar.floor = held.sidecar.floor.max(next.begin_of_epoch());
        let refused = take_live(&mut held.sidecar, live)?;
        let fences = drop_fence(&mut held.sidecar, next, live);
        let horizon = if sabotage::active("records_collected_early") { horizon.and(Some(next)) } else { horizon };
        let operations = horizon.map_or(0, |horizon| held.sidecar.forget_operations(horizon));
        self.save(&place, &mut held)?;
        Ok(Collected { fences, operations, refused })
    }

    /// Opens a receiver whose storage was restored, copied or moved, or whose sidecar or lock file was lost.
    ///
    /// In this order: note the [`incarnation`](Self::incarnation); read next token and live leases from the coordinator in
    /// one read; call this. It goes ahead only if the incarnation is still the noted one, so that a recovery that hung
    /// while the storage was replaced again changes nothing. Live leases stay usable. Doing it twice is harmless.
    ///
    /// Where the sidecar was lost, is older than what this value has seen, or does not tell of the content that is there,
    /// operation records may have been lost while their effects are there. The horizon then rises to the seed's next
    /// token (its floor, where there is none), and a retry of an operation born before is answered `OperationTooOld`.
    /// Operations without `born` are not covered: a retry of one whose record was lost takes effect again.
    ///
    /// # Errors
    /// When the seed says neither a next token nor a floor, issuer or domain are others, or the incarnation is another one
    /// by now. A file that was never guarded is not recovered but guarded.
    pub fn recover(
        &self,
        domain: &Domain,
        noted: &Incarnation,
        seed: &ReceiverSeed,
    ) -> Result<Recovered, MaintenanceError> {
        let place = self.place()?;
        place.metadata()?;
        if seed.next.is_none() && seed.floor.is_none() {
            return Err(MaintenanceError::SeedNeeded);
        }
        if self.incarnation()? != *noted {
            return Err(MaintenanceError::Overtaken);
        }
        if noted.recovery.is_none() && self.without_sidecar(&place)? == Closure::NotGuarded {
            return Err(MaintenanceError::Closed(Closure::NotGuarded));
        }
        let lock = if noted.place.is_some() { lock(&place, self.wait)? } else { Some(make_lock(&place, self.wait)?) };
        let lock = lock.ok_or(MaintenanceError::Overtaken)?;
        let found = match read_sidecar(&place)? {
            // It would become the spare sidecar, over which the next one is written.
            None if beside::metadata(&place.sidecar())?.is_some() => {
                return Err(beside::not_ours(&place.sidecar()).into());
            }
            found => found.and_then(Result::ok),
        };
        let here = noted.place.map(|_| lock.identity);
        if incarnation_of(found.as_ref(), here) != *noted {
            return Err(MaintenanceError::Overtaken);
        }
        let gone_back = found.as_ref().is_none_or(|sidecar| sidecar.counter < self.seen().greatest());
        let mut sidecar = match found {
            Some(sidecar) => sidecar,
            None => {
                let issuer = seed.issuer.clone();
                Sidecar::new(issuer, domain.clone(), seed.known_epoch, fresh_recovery_id(), lock.identity)
            }
        };
        same_issuer(&sidecar, seed)?;
        same_domain(&sidecar, domain)?;
        let mut held = Held { sidecar, lock };
        held.settle(&place)?;
        sidecar = held.sidecar;
        learn(&mut sidecar, seed);
        let only_opens = sabotage::active("recovery_only_opens");
        let (next, live) = if only_opens { (None, &[][..]) } else { (seed.next, seed.live.as_slice()) };
        let refused = take_live(&mut sidecar, live)?;
        let fences_dropped = next.map_or(0, |next| drop_fence(&mut sidecar, next, live));
        sidecar.closed = None;
        sidecar.recovery = fresh_recovery_id();
        (sidecar.device, sidecar.inode) = (held.lock.identity.device, held.lock.identity.inode);
        sidecar.counter = first_counter().max(sidecar.counter).max(self.seen().greatest());
        let stored = content_of(&place.file)?;
        // A sidecar that was copied back looks whole to itself, but it tells of the content that there was then.
        if gone_back || stored.map(|stored| stored.content) != sidecar.stored.map(|stored| stored.content) {
            forget_born_before(&mut sidecar, seed);
        }
        sidecar.stored = stored;
        held.sidecar = sidecar;
        self.save(&place, &mut held)?;
        mark(&place, &held.lock)?;
        place.sync_folder().map_err(MaintenanceError::Unknown)?;
        let incarnation = incarnation_of(Some(&held.sidecar), Some(held.lock.identity));
        Ok(Recovered { incarnation, fences_dropped, refused })
    }

    pub(crate) fn entered(&self, place: &Place) -> Result<Box<Held>, MaintenanceError> {
        match self.enter(place)? {
            Entrance::Open(held) => Ok(held),
            Entrance::Closed(why) => Err(MaintenanceError::Closed(why)),
        }
    }
}

fn lock_metadata(place: &Place) -> Result<Option<std::fs::Metadata>, Trouble> {
    beside::metadata(&place.lock())
}

fn incarnation_of(sidecar: Option<&Sidecar>, place: Option<Identity>) -> Incarnation {
    Incarnation {
        recovery: sidecar.map(|sidecar| sidecar.recovery),
        place,
        counter: sidecar.map_or(0, |sidecar| sidecar.counter),
    }
}

fn same_issuer(sidecar: &Sidecar, seed: &ReceiverSeed) -> Result<(), MaintenanceError> {
    if sidecar.issuer == seed.issuer {
        return Ok(());
    }
    Err(MaintenanceError::WrongIssuer { here: sidecar.issuer.clone(), presented: seed.issuer.clone() })
}

fn same_domain(sidecar: &Sidecar, domain: &Domain) -> Result<(), MaintenanceError> {
    if sidecar.domain == *domain {
        return Ok(());
    }
    Err(MaintenanceError::WrongDomain { here: sidecar.domain.clone(), presented: domain.clone() })
}

/// Takes what a seed knows where it is greater.
fn learn(sidecar: &mut Sidecar, seed: &ReceiverSeed) {
    if sabotage::active("telling_not_monotone") {
        (sidecar.known_epoch, sidecar.floor) = (seed.known_epoch, seed.floor);
        return;
    }
    sidecar.known_epoch = sidecar.known_epoch.max(seed.known_epoch);
    sidecar.floor = sidecar.floor.max(seed.least_accepted());
}

/// Shuts out the operations that may have taken effect under records that are gone: all that were born before the seed.
fn forget_born_before(sidecar: &mut Sidecar, seed: &ReceiverSeed) {
    if sabotage::active("lost_records_leave_no_horizon") {
        return;
    }
    sidecar.horizon = sidecar.horizon.max(seed.next.or(seed.floor));
}

/// Gives the live lease of this domain its fence, by the ordinary decision. Leases of other domains are not this file's.
fn take_live(sidecar: &mut Sidecar, live: &[LiveLease]) -> Result<Vec<LiveLease>, Invalid> {
    let mut refused = Vec::new();
    let (issuer, domain) = (sidecar.issuer.clone(), sidecar.domain.clone());
    for lease in live.iter().filter(|lease| lease.domain == domain) {
        if sabotage::active("live_fences_unchecked") {
            sidecar.fence = Some(lease.token);
            continue;
        }
        match decide(&Presented::token(&issuer, &domain, lease.token), &sidecar.standing(None))? {
            Decision::Apply { raise: true } => sidecar.raise(lease.token),
            Decision::Apply { raise: false } | Decision::Replay { .. } => {}
            Decision::Reject(_) => refused.push(lease.clone()),
        }
    }
    Ok(refused)
}

/// Raises the unfenced floor, then drops a fence below it unless its lease lives.
fn drop_fence(sidecar: &mut Sidecar, next: Token, live: &[LiveLease]) -> u64 {
    if sabotage::active("late_collection_lowers_floor") {
        sidecar.unfenced_floor = Some(next);
    } else if !sabotage::active("collection_raises_no_floor") {
        sidecar.unfenced_floor = sidecar.unfenced_floor.max(Some(next));
    }
    let lives = !sabotage::active("live_fences_collected") && live.iter().any(|lease| lease.domain == sidecar.domain);
    match sidecar.fence {
        Some(fence) if fence < next && !lives => {
            sidecar.fence = None;
            1
        }
        Some(_) | None => 0,
    }
}
