use std::time::{SystemTime, UNIX_EPOCH};

use fencepost_core::RecoveryId;

/// 128 random bits, which no other recovery has.
#[must_use]
pub fn fresh_recovery_id() -> RecoveryId {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    RecoveryId::from_bytes(bytes)
}

/// Where the mutation counter of a receiver starts: above all counters of a receiver that was in this place before, as
/// long as the clock is roughly right and there were fewer than a million changes a millisecond. Whoever has seen the old
/// one would otherwise find the new one gone back. It fits a signed 64-bit column.
#[must_use]
pub fn first_counter() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(elapsed.clamp(1, 1 << 42)).unwrap_or(1) << 20
}
