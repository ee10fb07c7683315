use crate::{Contract, LeaseId, Reason};

use super::{BreakRefusal, Broken, LeaseEnd, Record, machine::Step};

impl Step<'_> {
    /// Ends a lease for an operator. The burned token fences the old holder off; it is greater than the lease's own
    /// and nobody is ever granted it.
    pub(super) fn break_lease(&mut self, lease: LeaseId, reason: Reason) -> Result<Broken, BreakRefusal> {
        if let Some(memo) = self.state.ended_leases.get(&lease) {
            return match memo.end {
                LeaseEnd::Revoked => {
                    let fence_to = memo.fence_to.filter(|_| memo.contract == Contract::Safety);
                    Ok(Broken { domain: memo.domain.clone(), fence_to, already: true })
                }
                LeaseEnd::Released | LeaseEnd::Expired | LeaseEnd::Recovered => Err(BreakRefusal::LeaseEnded(memo.end)),
            };
        }
        let live = self.state.leases.get(&lease).ok_or(BreakRefusal::UnknownLease)?;
        let contract = live.contract;
        let domain = live.domain.clone();
        let token = self.draw().map_err(|_| BreakRefusal::TokenSpaceExhausted)?;
        let fence_to = Some(token).filter(|_| contract == Contract::Safety);
        self.announce_end(lease, LeaseEnd::Revoked, fence_to, Some(reason.clone()));
        self.commit(Record::LeaseBroken { lease, fence_to: token, reason, at: self.now });
        self.serve(&domain);
        Ok(Broken { domain, fence_to, already: false })
    }
}
