//! Requests that must change nothing, whoever sends them.

use fencepost_core::{Domain, Token};
use fencepost_receiver::{
    VerdictCode::{Malformed, MissingToken, StaleToken, UnknownEpoch, WrongDomain},
    header,
};

use super::{
    late::NEXT,
    plan::Call,
    report::Outcome,
    stage::{Advice, Owner, PASSED, Stage, Step, applied},
    world::World,
};

const FORGOTTEN: Advice = Advice {
    meaning: "whoever forgets the token writes past every lease",
    fix: "refuse a request without Fencepost-Token with 428 missing_token; no path of the service writes without it",
};
const READ_AS_A_NUMBER: Advice = Advice {
    meaning: "something that is no token was taken for one, or for none at all",
    fix: "take digits only, without sign or leading zero, from 1 to 9223372036854775807; answer 400 malformed else. \
          What cannot be read is never \"not fenced\"",
};
const FOREIGN: Advice = Advice {
    meaning: "the lease on one domain opens another one",
    fix: "find out from the request which domain the resource belongs to, compare it with Fencepost-Domain, and \
          answer 403 wrong_domain where they differ, before the fence is touched",
};
const RAISED: Advice = Advice {
    meaning: "a request that was refused has raised the fence all the same, and shuts out the owner",
    fix: FOREIGN.fix,
};
const ANOTHER_WAY: Advice = Advice {
    meaning: "this way to change the resource does not ask for the token, so a late request goes past the fence",
    fix: "check the token in one place that every method of the resource goes through, DELETE included",
};
const TWICE: Advice = Advice {
    meaning: "the operation took effect a second time",
    fix: "record operations of every method, in the transaction that changes the resource",
};
const LOCKED_OUT: Advice = Advice {
    meaning: "one absurd number has locked every owner out of this domain",
    fix: "keep the greatest epoch that the coordinator has told, and answer 503 unknown_epoch to a greater one; \
          this domain needs its fence set by hand now",
};

/// No token, though each looks like one to somebody: to `atoi`, to a signed or a floating column, to a wide integer.
const NO_TOKENS: [&str; 13] = [
    "0",
    "-1",
    "1.5",
    "+1",
    "1e3",
    "0x10",
    "007",
    "1 2",
    "latest",
    "9223372036854775808",
    "18446744073709551617",
    "340282366920938463463374607431768211457",
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999",
];

impl<W: World> Stage<'_, W> {
    pub(super) async fn missing_token(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let stands = self.intent(&a);
        self.applies(&a, &stands, NEXT).await?;
        let without = self.write(&a, &self.intent(&a)).with(header::TOKEN, None);
        self.refuses("somebody", &without, &[MissingToken], stands.value, FORGOTTEN).await?;
        let bare = [header::DOMAIN, header::IDEMPOTENCY_KEY, header::OPERATION_BORN];
        let bare = bare.into_iter().fold(without, |request, name| request.with(name, None));
        self.refuses("somebody", &bare, &[MissingToken], stands.value, FORGOTTEN).await?;
        Ok(PASSED)
    }

    pub(super) async fn malformed_token(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let stands = self.intent(&a);
        self.applies(&a, &stands, NEXT).await?;
        for text in NO_TOKENS {
            let request = self.write(&a, &self.intent(&a)).with(header::TOKEN, Some(text));
            self.refuses("somebody", &request, &[Malformed], stands.value, READ_AS_A_NUMBER).await?;
        }
        let empty = self.write(&a, &self.intent(&a)).with(header::TOKEN, Some(""));
        self.refuses("somebody", &empty, &[Malformed, MissingToken], stands.value, READ_AS_A_NUMBER).await?;
        self.applies(&a, &self.intent(&a), RAISED).await?;
        Ok(PASSED)
    }

    pub(super) async fn other_domain(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let stands = self.intent(&a);
        self.applies(&a, &stands, NEXT).await?;
        let foreign = self.foreign().await?;
        let request = self.write(&foreign, &self.intent(&foreign));
        self.refuses("C", &request, &[WrongDomain], stands.value, FOREIGN).await?;
        let nowhere = request.with(header::DOMAIN, None);
        let codes = [Malformed, WrongDomain, MissingToken];
        self.refuses("C, without the domain,", &nowhere, &codes, stands.value, FOREIGN).await?;
        self.applies(&a, &self.intent(&a), RAISED).await?;
        Ok(PASSED)
    }

    async fn foreign(&self) -> Step<Owner> {
        let domain = Domain::new("fencepost-prove/another-domain").expect("it is a domain");
        let token = self.world.grant(&domain).await?;
        self.tell(format!("C is granted {domain} with token {token}"));
        Ok(Owner { name: "C", token, domain })
    }

    pub(super) async fn also(&self, call: &Call) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let stands = self.intent(&a);
        self.applies(&a, &stands, NEXT).await?;
        let request = self.request(call, &a, &self.intent(&a));
        let without = request.clone().with(header::TOKEN, None);
        self.refuses("somebody", &without, &[MissingToken], stands.value, ANOTHER_WAY).await?;
        let zero = request.clone().with(header::TOKEN, Some("0"));
        self.refuses("somebody", &zero, &[Malformed], stands.value, ANOTHER_WAY).await?;
        let foreign = self.foreign().await?;
        let other = self.request(call, &foreign, &self.intent(&foreign));
        self.refuses("C", &other, &[WrongDomain], stands.value, ANOTHER_WAY).await?;
        let b = self.owner("B").await?;
        let stands = self.intent(&b);
        self.applies(&b, &stands, NEXT).await?;
        self.refuses("A, late,", &request, &[StaleToken], stands.value, ANOTHER_WAY).await?;
        let rightful = self.request(call, &b, &self.intent(&b));
        let first = self.send("B", &rightful).await?;
        applied(&first, NEXT)?;
        let again = self.intent(&b);
        self.applies(&b, &again, NEXT).await?;
        let answer = self.send("B, again,", &rightful).await?;
        self.replayed(&answer, &first, again.value, TWICE).await?;
        Ok(PASSED)
    }

    pub(super) async fn absurd_token(&self) -> Step<Outcome> {
        if !self.plan.absurd {
            let why = "needs --absurd-token; a service that takes it locks its owners out".to_owned();
            return Ok(Outcome::NotTried { why, asked_for: false });
        }
        let a = self.owner("A").await?;
        let stands = self.intent(&a);
        self.applies(&a, &stands, NEXT).await?;
        let absurd = self.write(&a, &self.intent(&a)).with(header::TOKEN, Some(&Token::MAX.to_decimal()));
        let absurd = absurd.with(header::OPERATION_BORN, None);
        self.refuses("somebody", &absurd, &[UnknownEpoch], stands.value, LOCKED_OUT).await?;
        self.applies(&a, &self.intent(&a), LOCKED_OUT).await?;
        Ok(PASSED)
    }
}
