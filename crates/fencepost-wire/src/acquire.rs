use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use fencepost_coordinator::{AcquireRequest, Answered, Granted, RequestCaller};
use fencepost_core::{
    BootId, Contract, Correlation, Domain, Epoch, Grant, Holder, Invalid, Issuer, LeaseId, LockDelay, MaxHold,
    Metadata, MinHold, Permission, Rule, Secret, Sequence, SessionId, Token, Ttl, Wait,
    lease::{Acquired, Terms},
    limits,
};

use crate::{Malformed, SentSecret, millis};

/// Body of `POST /v1/leases`.
///
/// Either `session`, whose secret goes with the call, or `holder` and `ttl_ms`, which open a session with the grant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// The domain.
    pub domain: String,
    /// Names the hold: 128 random bits as 32 lower-case hex digits, the same on every retry.
    pub request_id: String,
    /// An open session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What the holder of the session to be opened calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// How long the session to be opened lives without a heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// What the lease is for; `safety` when not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// How long to stand in the queue; 0 when not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// The lease ends this long after the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold_ms: Option<u64>,
    /// The domain is not granted again before this long after the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_hold_ms: Option<u64>,
    /// The domain is not granted again before this long after an unclean end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_delay_ms: Option<u64>,
    /// How many holds the lease may have; 1 when not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reentrancy_limit: Option<u64>,
    /// What to show beside the lease: an object of strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<SentMetadata>,
    /// Force a greater token where the session holds the domain already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renew: bool,
}

/// Metadata as the very bytes that were sent, because those are what its limit counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SentMetadata(Box<RawValue>);

impl SentMetadata {
    /// What to send.
    #[must_use]
    pub fn new(metadata: &Metadata) -> Self {
        Self(serde_json::value::to_raw_value(metadata.entries()).expect("a map of strings is JSON"))
    }

    /// What was sent.
    ///
    /// # Errors
    /// When it is longer than the limit, or not an object of strings.
    pub fn parse(&self) -> Result<Metadata, Invalid> {
        let json = self.0.get();
        if json.len() > limits::METADATA_BYTES {
            let rule = Rule::Bytes { least: 0, most: limits::METADATA_BYTES, found: json.len() };
            return Err(Invalid::new("metadata", rule));
        }
        let entries: BTreeMap<String, String> =
            serde_json::from_str(json).map_err(|_| Invalid::form("metadata", "an object of strings"))?;
        Metadata::new(entries, json.len())
    }
}

impl From<&AcquireRequest> for AcquireBody {
    fn from(request: &AcquireRequest) -> Self {
        let (session, holder, ttl_ms) = match &request.caller {
            RequestCaller::Session { session, .. } => (Some(session.to_string()), None, None),
            RequestCaller::Opening { holder, ttl } => (None, Some(holder.as_str().to_owned()), Some(ttl.as_millis())),
        };
        let Terms { max_hold, min_hold, lock_delay, reentrancy_limit } = request.terms;
        let wait_ms = request.wait.as_millis();
        Self {
            domain: request.domain.as_str().to_owned(),
            request_id: request.request.to_string(),
            session,
            holder,
            ttl_ms,
            contract: (request.contract != Contract::default()).then(|| request.contract.to_string()),
            wait_ms: (wait_ms > 0).then_some(wait_ms),
            max_hold_ms: max_hold.map(u64::from),
            min_hold_ms: min_hold.map(u64::from),
            lock_delay_ms: lock_delay.map(u64::from),
            reentrancy_limit: (reentrancy_limit != 1).then(|| reentrancy_limit.into()),
            metadata: (!request.metadata.is_empty()).then(|| SentMetadata::new(&request.metadata)),
            renew: request.renew,
        }
    }
}

impl AcquireBody {
    /// What was asked for, on behalf of the session whose secret came with the call.
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(self, secret: Option<Secret>) -> Result<AcquireRequest, Invalid> {
        let caller = caller(self.session, self.holder, self.ttl_ms, secret)?;
        Ok(AcquireRequest {
            caller,
            domain: Domain::new(&self.domain)?,
            request: self.request_id.parse()?,
            contract: self.contract.map_or(Ok(Contract::default()), |contract| contract.parse())?,
            terms: Terms {
                max_hold: self.max_hold_ms.map(MaxHold::from_millis).transpose()?,
                min_hold: self.min_hold_ms.map(MinHold::from_millis).transpose()?,
                lock_delay: self.lock_delay_ms.map(LockDelay::from_millis).transpose()?,
                reentrancy_limit: self.reentrancy_limit.map_or(Ok(1), reentrancy_limit)?,
            },
            metadata: self.metadata.map_or(Ok(Metadata::default()), |sent| sent.parse())?,
            renew: self.renew,
            wait: Wait::from_millis(self.wait_ms.unwrap_or(0))?,
        })
    }
}

fn caller(
    session: Option<String>,
    holder: Option<String>,
    ttl_ms: Option<u64>,
    secret: Option<Secret>,
) -> Result<RequestCaller, Invalid> {
    match (session, holder, ttl_ms) {
        (Some(session), None, None) => Ok(RequestCaller::Session { session: session.parse()?, secret }),
        (None, Some(holder), Some(ttl_ms)) => {
            Ok(RequestCaller::Opening { holder: Holder::new(&holder)?, ttl: Ttl::from_millis(ttl_ms)? })
        }
        (None, Some(_), None) => Err(Invalid::form("ttl_ms", "given beside holder")),
        (None, None, Some(_)) => Err(Invalid::form("holder", "given beside ttl_ms")),
        (None, None, None) => Err(Invalid::form("session", "given, or else holder and ttl_ms")),
        (Some(_), Some(_), _) | (Some(_), None, Some(_)) => {
            Err(Invalid::form("session", "left out where holder or ttl_ms is given"))
        }
    }
}

fn reentrancy_limit(limit: u64) -> Result<u32, Invalid> {
    let most = limits::REENTRANCY_LIMIT;
    u32::try_from(limit).ok().filter(|limit| (1..=most).contains(limit)).ok_or_else(|| {
        let rule = Rule::Range { least: 1, most: most.into(), found: Some(limit), unit: "holds" };
        Invalid::new("reentrancy_limit", rule)
    })
}

/// Answer to `POST /v1/leases`: 201, or 200 for the same grant again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireAnswer {
    /// The coordinator, as receivers know it.
    pub issuer: Issuer,
    /// The lease.
    pub lease: LeaseId,
    /// Its domain.
    pub domain: Domain,
    /// The fencing token, under contract `safety` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The token's epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The token's number inside the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Sequence>,
    /// A name for this run, under contract `admission` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
    /// The public id of the session that holds the lease.
    pub session: SessionId,
    /// The session's secret, where this call opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SentSecret>,
    /// The contract.
    pub contract: Contract,
    /// The session's time to live.
    pub ttl_ms: Ttl,
    /// Milliseconds until the lease ends unless it is renewed.
    pub remaining_ms: u64,
    /// Milliseconds from receiving the request to making the answer.
    pub elapsed_ms: u64,
    /// The boot under which the coordinator runs.
    pub boot: BootId,
}

impl AcquireAnswer {
    /// What to answer, by the coordinator that `issuer` names.
    #[must_use]
    pub fn new(answered: Answered<Granted>, issuer: &Issuer) -> Self {
        let Granted { acquired, secret } = answered.answer;
        let contract = acquired.permission.contract();
        let (token, correlation) = match acquired.permission {
            Permission::Safety(grant) => (Some(grant.token), None),
            Permission::Admission(correlation) => (None, Some(correlation)),
            Permission::Advisory => (None, None),
        };
        Self {
            issuer: issuer.clone(),
            lease: acquired.lease,
            domain: acquired.domain,
            token,
            epoch: token.map(Token::epoch),
            sequence: token.map(Token::sequence),
            correlation,
            session: acquired.session,
            secret: secret.map(SentSecret::from),
            contract,
            ttl_ms: acquired.ttl,
            remaining_ms: acquired.remaining_ms,
            elapsed_ms: millis(answered.elapsed),
            boot: answered.boot,
        }
    }

    /// The status to send it with.
    #[must_use]
    pub const fn status(again: bool) -> u16 {
        if again { 200 } else { 201 }
    }

    /// The grant, if the answer is one to this request. `again` is whether it came with status 200.
    ///
    /// # Errors
    /// When anything about it is not as asked for: another domain, contract or session, no token under `safety` or
    /// one under another contract, numbers that contradict each other. Such an answer is never a permission.
    pub fn into_granted(self, asked: &AcquireRequest, again: bool) -> Result<Answered<Granted>, Malformed> {
        let expect = |holds: bool, field: &'static str, why: &'static str| {
            if holds { Ok(()) } else { Err(Malformed::new(field, why)) }
        };
        expect(self.domain == asked.domain, "domain", "is not the one that was asked for")?;
        expect(self.contract == asked.contract, "contract", "is not the one that was asked for")?;
        match &asked.caller {
            RequestCaller::Session { session, .. } => {
                expect(self.session == *session, "session", "is not the one that was asked for")?;
            }
            RequestCaller::Opening { ttl, .. } => {
                expect(self.ttl_ms == *ttl, "ttl_ms", "is not the one that was asked for")?;
                expect(again || self.secret.is_some(), "secret", "is missing from a grant that opens a session")?;
            }
        }
        let permission = match self.contract {
            Contract::Safety => {
                let token = self.token.ok_or_else(|| Malformed::new("token", "is missing under contract safety"))?;
                let same_epoch = self.epoch.is_none_or(|epoch| epoch == token.epoch());
                let same_sequence = self.sequence.is_none_or(|sequence| sequence == token.sequence());
                expect(same_epoch, "epoch", "contradicts the token")?;
                expect(same_sequence, "sequence", "contradicts the token")?;
                Permission::Safety(Grant {
                    issuer: self.issuer,
                    domain: self.domain.clone(),
                    token,
                    lease: self.lease,
                    session: self.session,
                })
            }
            Contract::Admission => {
                expect(self.token.is_none(), "token", "is there under contract admission")?;
                let missing = || Malformed::new("correlation", "is missing under contract admission");
                Permission::Admission(self.correlation.ok_or_else(missing)?)
            }
            Contract::Advisory => {
                expect(self.token.is_none(), "token", "is there under contract advisory")?;
                Permission::Advisory
            }
        };
        let secret = self.secret.map(Secret::from);
        Ok(Answered {
            answer: Granted {
                acquired: Acquired {
                    lease: self.lease,
                    domain: self.domain,
                    permission,
                    session: self.session,
                    ttl: self.ttl_ms,
                    remaining_ms: self.remaining_ms,
                    again,
                    secret_taken: secret.is_some(),
                },
                secret,
            },
            elapsed: Duration::from_millis(self.elapsed_ms),
            boot: self.boot,
        })
    }
}
