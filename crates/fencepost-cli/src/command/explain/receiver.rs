use std::ffi::OsStr;

use fencepost_core::{
    Domain, Epoch, Issuer, Token,
    fence::{Condition, Decision, Presented, RejectedBy, Rejection, SignatureRule, Standing, decide},
};
use fencepost_rusqlite::{fence_of, status};
use serde_json::json;

use super::Explained;
use crate::{exit::Exit, failure::Failure, resource::Resource};

/// A receiver that is asked what it would say. Nothing in it is changed.
pub(crate) struct Asked(Resource);

/// What the receiver's own records say.
struct Records {
    condition: Condition,
    issuer: Issuer,
    known_epoch: Epoch,
    floor: Option<Token>,
    unfenced_floor: Option<Token>,
    horizon: Option<Token>,
    fence: Option<Token>,
    /// The domain that the write is for.
    domain: Domain,
}

impl Asked {
    pub(super) fn parse(typed: &OsStr) -> Result<Self, Failure> {
        Resource::parse(typed).map(Self)
    }

    fn typed(&self) -> &str {
        self.0.typed()
    }

    pub(super) fn explain(
        &self,
        explained: &mut Explained,
        token: Token,
        domain: Option<Domain>,
        issuer: Option<Issuer>,
    ) -> Result<(), Failure> {
        let records = self.read(domain.as_ref())?;
        // A grant without its coordinator at hand is taken to be of the one that the receiver knows.
        let issuer = issuer.unwrap_or_else(|| records.issuer.clone());
        let domain = domain.unwrap_or_else(|| records.domain.clone());
        let standing = Standing {
            condition: records.condition,
            issuer: records.issuer.clone(),
            domain: records.domain.clone(),
            signature: SignatureRule::Optional,
            known_epoch: records.known_epoch,
            floor: records.floor,
            unfenced_floor: records.unfenced_floor,
            fence: records.fence,
            horizon: records.horizon,
            recorded: None,
        };
        let decision = decide(&Presented::token(&issuer, &domain, token), &standing)?;
        let at = format!("{} at {}", records.domain, self.typed());
        let bound = |bound: Option<Token>| bound.map_or_else(|| "none".to_owned(), |bound| bound.to_string());
        explained.say(format!(
            "For {at}: fence {}, floor {}, unfenced floor {}, known epoch {}.",
            bound(records.fence),
            bound(records.floor),
            bound(records.unfenced_floor),
            records.known_epoch
        ));
        let (verdict, reason) = match &decision {
            Decision::Apply { .. } | Decision::Replay { .. } => ("applied", None),
            Decision::Reject(rejection) => ("rejected", Some(rejection.code())),
        };
        explained.say(verdict_words(&decision, token, &records));
        explained.fact(
            "receiver",
            json!({
                "resource": self.typed(), "domain": records.domain, "issuer": records.issuer,
                "fence": records.fence, "floor": records.floor, "unfenced_floor": records.unfenced_floor,
                "known_epoch": records.known_epoch, "verdict": verdict, "reason": reason,
            }),
        );
        explained.next.retain(|next| !next.contains("--receiver"));
        explained.then(format!("fencepost status {}", self.typed()));
        Ok(())
    }

    fn read(&self, domain: Option<&Domain>) -> Result<Records, Failure> {
        match &self.0 {
            Resource::Sqlite(resource) => {
                let Some(domain) = domain else {
                    return Err(Failure::new(
                        Exit::Usage,
                        "domain: the token alone does not say which fence to look at",
                    )
                    .then(format!("fencepost explain DOMAIN --token TOKEN --receiver {}", resource.typed)));
                };
                let connection = resource.connect()?;
                let read = || {
                    Ok::<_, fencepost_rusqlite::MaintenanceError>((
                        status(&connection)?,
                        fence_of(&connection, domain)?,
                    ))
                };
                let (status, fence) = read().map_err(|error| resource.failed(error))?;
                Ok(Records {
                    condition: status.condition,
                    issuer: status.issuer,
                    known_epoch: status.known_epoch,
                    floor: status.floor,
                    unfenced_floor: status.unfenced_floor,
                    horizon: status.horizon,
                    fence,
                    domain: domain.clone(),
                })
            }
            Resource::File(resource) => {
                let status = resource.receiver.status().map_err(|error| resource.failed(error))?;
                Ok(Records {
                    condition: status.condition,
                    issuer: status.issuer,
                    known_epoch: status.known_epoch,
                    floor: status.floor,
                    unfenced_floor: status.unfenced_floor,
                    horizon: status.horizon,
                    fence: status.fence,
                    domain: status.domain,
                })
            }
        }
    }
}

fn verdict_words(decision: &Decision, token: Token, records: &Records) -> String {
    match decision {
        Decision::Apply { raise: true } => format!(
            "A write under {token} would be applied, and would raise the fence to it: from then on every smaller token \
             is stale there."
        ),
        Decision::Apply { raise: false } | Decision::Replay { .. } => {
            format!(
                "A write under {token} would be applied: the fence stands at just this token, and its owner may write again."
            )
        }
        Decision::Reject(rejection) => {
            format!("A write under {token} would be rejected: {rejection}. {}", because(rejection, records))
        }
    }
}

/// What a rejection means for whoever gets it.
fn because(rejection: &Rejection, records: &Records) -> String {
    match rejection {
        Rejection::Stale { by: RejectedBy::Fence, least_accepted, .. } => format!(
            "A later owner of the domain has been there with {least_accepted}: the lease of this token is over, and \
             only a new acquire helps."
        ),
        Rejection::Stale { by: RejectedBy::Floor, .. } => {
            "A recovery has ruled out everything older, for every domain: acquire anew.".to_owned()
        }
        Rejection::Stale { by: RejectedBy::UnfencedFloor, .. } => {
            "The domain has no fence there any more, and what is older than the last collection is refused: acquire anew."
                .to_owned()
        }
        Rejection::UnknownEpoch { .. } => {
            "The receiver was never told of that epoch; a made-up number could otherwise lock everybody out. After a \
             recovery of the coordinator, tell the receiver."
                .to_owned()
        }
        Rejection::WrongIssuer => format!("It accepts grants of {} only.", records.issuer),
        Rejection::WrongDomain => format!("It belongs to the domain {}.", records.domain),
        Rejection::Closed(_) => "It accepts nothing until it is guarded or recovered.".to_owned(),
        Rejection::Missing
        | Rejection::WrongContract
        | Rejection::Unverified
        | Rejection::OperationConflict
        | Rejection::OperationInProgress
        | Rejection::OperationTooOld
        | Rejection::NotCurrent => String::new(),
    }
}
