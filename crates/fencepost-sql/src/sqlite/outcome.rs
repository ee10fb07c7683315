use fencepost_core::{
    Domain, Epoch, Issuer, RecoveryId, Token,
    fence::{Closure, Condition, Fingerprint, SignatureRule, Standing},
    sabotage,
};

/// The receiver's row and its counter, column by column as [`statement::RECEIVER`](super::statement::RECEIVER) reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverRow {
    /// `open`, or why it is closed.
    pub condition: String,
    /// The issuer.
    pub issuer: String,
    /// The greatest epoch accepted.
    pub known_epoch: i64,
    /// The least token accepted for any domain.
    pub floor: Option<i64>,
    /// The least token accepted for a domain without a fence.
    pub unfenced_floor: Option<i64>,
    /// The bound below which operation records may have been collected.
    pub horizon: Option<i64>,
    /// How many fences there have to be.
    pub fences: i64,
    /// The random id of the last recovery.
    pub recovery: Vec<u8>,
    /// The device that the file was on.
    pub device: i64,
    /// The inode that the file had.
    pub inode: i64,
    /// How many changes there have been.
    pub counter: i64,
}

/// What is recorded for one domain and operation id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainRow {
    /// The fence.
    pub fence: Option<i64>,
    /// How many fences there are; counted only where the domain has none.
    pub fences_found: Option<i64>,
    /// The fingerprint recorded for the operation id.
    pub fingerprint: Option<Vec<u8>>,
}

/// Where a database file lies. A copy lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

impl Identity {
    /// A database in memory, which has no place.
    pub const MEMORY: Self = Self { device: 0, inode: 0 };

    /// As stored in two signed columns.
    #[must_use]
    pub const fn columns(self) -> (i64, i64) {
        (self.device.cast_signed(), self.inode.cast_signed())
    }
}

impl ReceiverRow {
    /// The random id of the last recovery; `None` when the column is damaged.
    #[must_use]
    pub fn recovery_id(&self) -> Option<RecoveryId> {
        self.recovery.as_slice().try_into().ok().map(RecoveryId::from_bytes)
    }

    /// The mutation counter; `None` when the column is damaged. The last number there is counts as damage too: no receiver
    /// has changed so often, and it could not count on.
    #[must_use]
    pub fn mutation_counter(&self) -> Option<u64> {
        u64::try_from(self.counter).ok().filter(|_| self.counter < i64::MAX)
    }

    fn known_epoch(&self) -> Option<Epoch> {
        u32::try_from(self.known_epoch).ok().and_then(|number| Epoch::new(number).ok())
    }
}

/// Whether a receiver with this row, found at `here`, accepts anything from a caller who has seen counter `seen`.
#[must_use]
pub fn condition_of(row: &ReceiverRow, here: Identity, seen: u64) -> Condition {
    let closures = [
        Closure::NotGuarded,
        Closure::MetadataMissing,
        Closure::FenceMissing,
        Closure::OtherIncarnation,
        Closure::WentBack,
        Closure::Recovering,
        Closure::ByOperator,
    ];
    if row.condition != "open" {
        let why = closures.into_iter().find(|why| why.as_str() == row.condition);
        return Condition::Closed(why.unwrap_or(Closure::MetadataMissing));
    }
    if (row.device, row.inode) != here.columns() {
        return Condition::Closed(Closure::OtherIncarnation);
    }
    match (row.mutation_counter(), row.recovery_id()) {
        (Some(counter), Some(_)) if counter >= seen => Condition::Open,
        (Some(_), Some(_)) => Condition::Closed(Closure::WentBack),
        (None, _) | (_, None) => Condition::Closed(Closure::MetadataMissing),
    }
}

/// What the decision looks at, from what the database holds. A column that no receiver can have written closes it.
#[must_use]
pub fn standing(
    row: &ReceiverRow,
    records: &DomainRow,
    domain: &Domain,
    here: Identity,
    seen: u64,
) -> Option<Standing> {
    let condition = match condition_of(row, here, seen) {
        Condition::Open if records.fences_found.is_some_and(|found| found != row.fences) => {
            Condition::Closed(Closure::FenceMissing)
        }
        condition => condition,
    };
    u64::try_from(row.fences).ok()?;
    let token = |column: Option<i64>| match column.map(Token::from_column).transpose() {
        Err(_) if sabotage::active("damage_taken_for_absence") => Some(None),
        read => read.ok(),
    };
    let recorded = match &records.fingerprint {
        Some(bytes) => Some(Fingerprint::from_digest(bytes.as_slice().try_into().ok()?)),
        None => None,
    };
    Some(Standing {
        condition,
        issuer: Issuer::new(&row.issuer).ok()?,
        domain: domain.clone(),
        signature: SignatureRule::Optional,
        known_epoch: row.known_epoch()?,
        floor: token(row.floor)?,
        unfenced_floor: token(row.unfenced_floor)?,
        fence: token(records.fence)?,
        horizon: token(row.horizon)?,
        recorded,
    })
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
