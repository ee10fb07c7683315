//! What went wrong before there was a rule, told on the reference receiver. Each story is the shortest one there is.

use super::*;
use crate::fence::{Closure, RejectedBy};

fn token(text: &str) -> Token {
    text.parse().unwrap()
}

fn domain(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

fn register() -> Register {
    Register::new(Issuer::new("prod").unwrap(), Epoch::new(1).unwrap())
}

fn stale(presented: &str, least: &str, by: RejectedBy) -> Rejection {
    Rejection::Stale { presented: token(presented), least_accepted: token(least), by }
}

fn live(name: &str, text: &str) -> LiveLease {
    LiveLease { domain: domain(name), token: token(text) }
}

/// A receiver with one value in each domain behind it: what a lost update is lost from.
struct Shop {
    register: Register,
    values: BTreeMap<Domain, i64>,
}

impl Shop {
    fn new() -> Self {
        Self { register: register(), values: BTreeMap::new() }
    }

    fn read(&self, name: &str) -> i64 {
        self.values.get(&domain(name)).copied().unwrap_or(0)
    }

    fn advance(&mut self, name: &str, text: &str) -> Verdict<()> {
        let (issuer, domain) = (Issuer::new("prod").unwrap(), domain(name));
        self.register.advance(&domain, &Presented::token(&issuer, &domain, token(text))).unwrap()
    }

    fn write(&mut self, name: &str, text: &str, value: i64) -> Verdict<()> {
        self.run(name, text, None, |_| value)
    }

    fn add(&mut self, name: &str, text: &str, operation: &Operation) -> Verdict<()> {
        self.run(name, text, Some(operation), |before| before + 1)
    }

    fn run(
        &mut self,
        name: &str,
        text: &str,
        operation: Option<&Operation>,
        change: impl Fn(i64) -> i64,
    ) -> Verdict<()> {
        let (issuer, domain) = (Issuer::new("prod").unwrap(), domain(name));
        let presented = Presented { operation, ..Presented::token(&issuer, &domain, token(text)) };
        let value = self.values.entry(domain.clone()).or_default();
        let mutation = || -> Result<RecordedResult, Invalid> {
            *value = change(*value);
            Ok(RecordedResult::default())
        };
        self.register.write(&domain, &presented, mutation).unwrap().map(|_| ())
    }
}

fn operation(id: &str) -> Operation {
    Operation::new(OperationId::new(id).unwrap(), id.as_bytes())
}

/// A(1.5) paused, B gets 1.6; A reads 0; B reads 0; A writes 1; B writes 1.
#[test]
fn m1_fenced_on_first_write_an_update_read_before_can_be_lost() {
    let mut shop = Shop::new();
    let (by_a, by_b) = (shop.read("d"), shop.read("d"));
    assert_eq!(shop.write("d", "1.5", by_a + 1), Verdict::Applied(()));
    assert_eq!(shop.write("d", "1.6", by_b + 1), Verdict::Applied(()));
    assert_eq!(shop.read("d"), 1, "two increments, one of them lost");
}

/// The same with B advancing after its read.
#[test]
fn m2_advancing_after_the_read_does_not_help() {
    let mut shop = Shop::new();
    let (by_a, by_b) = (shop.read("d"), shop.read("d"));
    assert_eq!(shop.write("d", "1.5", by_a + 1), Verdict::Applied(()));
    assert_eq!(shop.advance("d", "1.6"), Verdict::Applied(()));
    assert_eq!(shop.write("d", "1.6", by_b + 1), Verdict::Applied(()));
    assert_eq!(shop.read("d"), 1, "two increments, one of them lost");
}

/// The cure. Mutant: an advance that raises nothing.
#[test]
fn advancing_before_the_read_shuts_the_older_owner_out() {
    let mut shop = Shop::new();
    let by_a = shop.read("d");
    assert_eq!(shop.advance("d", "1.6"), Verdict::Applied(()));
    let by_b = shop.read("d");
    assert_eq!(shop.write("d", "1.5", by_a + 1), Verdict::Rejected(stale("1.5", "1.6", RejectedBy::Fence)));
    assert_eq!(shop.write("d", "1.6", by_b + 1), Verdict::Applied(()));
    assert_eq!(shop.read("d"), 1);
}

/// Mutant: fences of live leases not inserted.
#[test]
fn w2_a_live_holder_that_has_not_written_yet_survives_a_collection() {
    let mut shop = Shop::new();
    assert_eq!(shop.register.collect(token("1.5"), &[live("d", "1.1")]), Verdict::Applied(()));
    assert_eq!(shop.write("d", "1.1", 1), Verdict::Applied(()));
}

/// The coordinator says 1.1 is live; 1.2 is granted, writes and is collected; now the old message arrives. Mutant: the
/// fence of a live lease inserted without deciding.
#[test]
fn w2_a_late_collection_does_not_readmit_an_old_token() {
    let mut shop = Shop::new();
    assert_eq!(shop.write("d", "1.2", 2), Verdict::Applied(()));
    assert_eq!(shop.register.collect(token("1.9"), &[]), Verdict::Applied(()));
    assert_eq!(shop.register.fence(&domain("d")), None);
    assert_eq!(shop.register.collect(token("1.2"), &[live("d", "1.1")]), Verdict::Applied(()));
    assert_eq!(shop.write("d", "1.1", 1), Verdict::Rejected(stale("1.1", "1.9", RejectedBy::UnfencedFloor)));
}

/// Mutant: fences removed without raising the unfenced floor.
#[test]
fn a_collected_domain_takes_no_token_from_before_the_collection() {
    let mut shop = Shop::new();
    assert_eq!(shop.write("d", "1.4", 4), Verdict::Applied(()));
    assert_eq!(shop.register.collect(token("1.5"), &[]), Verdict::Applied(()));
    assert_eq!(shop.write("d", "1.3", 3), Verdict::Rejected(stale("1.3", "1.5", RejectedBy::UnfencedFloor)));
    assert_eq!(shop.write("d", "1.5", 5), Verdict::Applied(()));
}

/// Mutant: records forgotten without raising the horizon.
#[test]
fn w3_an_operation_whose_record_was_collected_is_too_old_and_not_new() {
    let mut shop = Shop::new();
    let pay = operation("pay").born(token("1.1"));
    assert_eq!(shop.add("d", "1.1", &pay), Verdict::Applied(()));
    assert_eq!(shop.add("d", "1.2", &pay), Verdict::Replayed(()));
    shop.register.collect_operations(token("1.2"));
    assert_eq!(shop.add("d", "1.2", &pay), Verdict::Rejected(Rejection::OperationTooOld));
    assert_eq!(shop.read("d"), 1);
}

#[test]
fn operations_without_birth_are_kept_by_the_token_they_were_applied_under() {
    let mut shop = Shop::new();
    assert_eq!(shop.add("d", "1.2", &operation("old")), Verdict::Applied(()));
    assert_eq!(shop.add("d", "1.6", &operation("new")), Verdict::Applied(()));
    shop.register.collect_operations(token("1.5"));
    assert_eq!(shop.add("d", "1.7", &operation("new")), Verdict::Replayed(()));
    assert_eq!(shop.add("d", "1.7", &operation("old")), Verdict::Applied(()), "its promise ended with its record");
}

/// X under d and then under e is two operations by its key, and where two domains are changed at once the set of them is
/// in the fingerprint, so that X over another set is a conflict instead of a second effect.
#[test]
fn w4_the_set_of_domains_belongs_to_the_operation() {
    let mut shop = Shop::new();
    let pay = operation("pay");
    let over = |names: &[&str]| {
        let domains: Vec<Domain> = names.iter().map(|name| domain(name)).collect();
        Operation { fingerprint: pay.fingerprint.over(&domains), ..pay.clone() }
    };
    assert_eq!(shop.add("d", "1.1", &over(&["d", "e"])), Verdict::Applied(()));
    assert_eq!(shop.add("d", "1.1", &over(&["e", "d"])), Verdict::Replayed(()));
    assert_eq!(shop.add("d", "1.1", &over(&["d", "f"])), Verdict::Rejected(Rejection::OperationConflict));
    assert_eq!(shop.add("d", "1.1", &pay), Verdict::Rejected(Rejection::OperationConflict));
    assert_eq!(shop.read("d"), 1);
}

/// B(1.6) replays X of A(1.5); A(1.5) writes Y. Mutant: a replay that raises nothing.
#[test]
fn w5_a_replay_under_a_greater_token_shuts_out_the_older_owner() {
    let mut shop = Shop::new();
    assert_eq!(shop.add("d", "1.5", &operation("x")), Verdict::Applied(()));
    assert_eq!(shop.add("d", "1.6", &operation("x")), Verdict::Replayed(()));
    assert_eq!(shop.add("d", "1.5", &operation("y")), Verdict::Rejected(stale("1.5", "1.6", RejectedBy::Fence)));
}

/// Two live tokens on one fence: the greater writes, and the smaller is stale though its holder is a rightful one. That
/// is why shared leases do not exist under `safety`.
#[test]
fn s1_of_two_live_tokens_on_one_fence_only_the_greater_can_write() {
    let mut shop = Shop::new();
    assert_eq!(shop.write("d", "1.2", 2), Verdict::Applied(()));
    assert_eq!(shop.write("d", "1.1", 1), Verdict::Rejected(stale("1.1", "1.2", RejectedBy::Fence)));
}

/// The floor that a recovery tells binds domains with a fence too. Mutant: the floor compared only without a fence.
#[test]
fn w1_a_recovery_shuts_out_every_older_token_also_where_there_is_a_fence() {
    let mut shop = Shop::new();
    assert_eq!(shop.write("d", "1.1", 1), Verdict::Applied(()));
    shop.register.tell(Epoch::new(2).unwrap(), token("2.1"));
    assert_eq!(shop.write("d", "1.1", 2), Verdict::Rejected(stale("1.1", "2.1", RejectedBy::Floor)));
    assert_eq!(shop.write("d", "2.1", 3), Verdict::Applied(()));
    // A late message of the recovery before lowers nothing. Mutant: what is told last counts.
    shop.register.tell(Epoch::new(1).unwrap(), token("1.1"));
    assert_eq!(shop.write("e", "1.9", 4), Verdict::Rejected(stale("1.9", "2.1", RejectedBy::Floor)));
    assert_eq!(shop.write("e", "2.1", 4), Verdict::Applied(()));
}

/// Mutants: a restored receiver only reopened; fences of live leases dropped.
#[test]
fn w8_a_recovered_receiver_takes_no_lost_token_and_shuts_no_healthy_holder_out() {
    let mut shop = Shop::new();
    assert_eq!(shop.write("d", "1.1", 1), Verdict::Applied(()));
    shop.register.close(Condition::Closed(Closure::OtherIncarnation));
    let closed = Verdict::Rejected(Rejection::Closed(Closure::OtherIncarnation));
    assert_eq!(shop.write("d", "1.9", 9), closed);
    assert_eq!(shop.advance("d", "1.9"), closed);
    assert_eq!(shop.register.collect(token("1.9"), &[live("e", "1.4")]), closed);
    // 1.3 wrote to d after the state that was restored, and is gone; 1.4 holds e and has not written.
    shop.register.recover(Epoch::new(1).unwrap(), token("1.5"), &[live("e", "1.4")]);
    assert_eq!(shop.write("d", "1.2", 2), Verdict::Rejected(stale("1.2", "1.5", RejectedBy::UnfencedFloor)));
    assert_eq!(shop.write("e", "1.4", 4), Verdict::Applied(()));
}

/// I11. Mutant: `collect` raises no floor; the fence that a live lease keeps lets an old token pass.
#[test]
fn a_read_of_a_later_epoch_ends_the_earlier_ones() {
    let mut recovered = Shop::new();
    assert_eq!(recovered.write("d", "1.1", 1), Verdict::Applied(()));
    recovered.register.recover(Epoch::new(2).unwrap(), token("2.7"), &[live("d", "2.3")]);
    assert_eq!(recovered.write("d", "1.9", 2), Verdict::Rejected(stale("1.9", "2.3", RejectedBy::Fence)));
    assert_eq!(recovered.write("d", "2.3", 3), Verdict::Applied(()));

    // Not told of the epoch, it refuses the live lease and keeps the fence.
    let mut collected = Shop::new();
    assert_eq!(collected.write("d", "1.1", 1), Verdict::Applied(()));
    let _ = collected.register.collect(token("2.7"), &[live("d", "2.3")]);
    assert_eq!(collected.write("d", "1.9", 2), Verdict::Rejected(stale("1.9", "2.0", RejectedBy::Floor)));
}

#[test]
fn a_failing_mutation_leaves_neither_raise_nor_record() {
    let mut register = register();
    let (issuer, d, x) = (Issuer::new("prod").unwrap(), domain("d"), operation("x"));
    let presented = Presented::token(&issuer, &d, token("1.5")).with_operation(&x);
    let fails = || Err::<RecordedResult, _>(Invalid::form("amount", "what the account holds"));
    assert!(register.write(&d, &presented, fails).is_err());
    assert_eq!((register.fence(&d), register.standing(&d, Some(&x.id)).recorded), (None, None));
}

#[test]
fn a_grant_for_another_domain_changes_neither() {
    let mut register = register();
    let (issuer, d, e) = (Issuer::new("prod").unwrap(), domain("d"), domain("e"));
    let verdict = register.advance(&e, &Presented::token(&issuer, &d, token("1.5"))).unwrap();
    assert_eq!(verdict, Verdict::Rejected(Rejection::WrongDomain));
    assert_eq!((register.fence(&d), register.fence(&e)), (None, None));
}
