use fencepost_core::{
    Epoch,
    fence::{Closure, Condition, Presented, Standing},
    sabotage,
};

/// What a receiver under a deliberate defect takes for its standing: the tests of the conformance suite switch one on, and
/// have to see it caught. In a normal build nothing can be switched on, and it gives back what it was given.
#[doc(hidden)]
#[must_use]
pub fn misread(presented: &Presented<'_>, mut standing: Standing) -> Standing {
    if sabotage::active("unknown_epoch_accepted") {
        standing.known_epoch = Epoch::MAX;
    }
    if sabotage::active("floor_spares_fenced_domains") && standing.fence.is_some() {
        standing.floor = None;
    }
    if sabotage::active("horizon_ignored") {
        standing.horizon = None;
    }
    if sabotage::active("fingerprint_ignored") {
        let asked = presented.operation.map(|operation| operation.fingerprint);
        standing.recorded = standing.recorded.and(asked);
    }
    if sabotage::active("other_issuer_accepted") {
        standing.issuer = presented.issuer.clone();
    }
    if sabotage::active("other_domain_accepted") {
        standing.domain = presented.domain.clone();
    }
    if sabotage::active("lost_records_not_noticed") && standing.condition == Condition::Closed(Closure::FenceMissing) {
        standing.condition = Condition::Open;
    }
    standing
}
