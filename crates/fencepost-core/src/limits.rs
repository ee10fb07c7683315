//! Every limit of the vocabulary, in one place. Sizes are bytes, times are milliseconds.

/// Longest domain.
pub const DOMAIN_BYTES: usize = 512;
/// Longest holder name.
pub const HOLDER_BYTES: usize = 256;
/// Longest operation id.
pub const OPERATION_ID_BYTES: usize = 256;
/// Longest issuer name.
pub const ISSUER_BYTES: usize = 256;
/// Longest reason of an operator's command.
pub const REASON_BYTES: usize = 1024;
/// Largest metadata of a lease, measured as the JSON bytes sent.
pub const METADATA_BYTES: usize = 4 * 1024;
/// Largest recorded result of an operation.
pub const RESULT_BYTES: usize = 64 * 1024;
/// Largest request body.
pub const BODY_BYTES: usize = 64 * 1024;
/// Largest body of a heartbeat, which may name every lease of a session.
pub const HEARTBEAT_BODY_BYTES: usize = 1024 * 1024;

/// Most live sessions.
pub const SESSIONS: usize = 100_000;
/// Most domains that are held, reserved after their lease, or waited for.
pub const DOMAINS: usize = 2_000_000;
/// Most leases of one session, acquires that wait for one included.
pub const SESSION_LEASES: usize = 10_000;
/// Most leases that one heartbeat names: those of its session, and as many of which the holder has not heard that they
/// have ended.
pub const HEARTBEAT_LEASES: usize = 2 * SESSION_LEASES;
/// Most requests that wait for a domain at one time without a session, which their grant would open. A place whose
/// connection has gone counts until it is given up.
pub const OPENING_WAITERS: usize = 10_000;
/// Most calls that wait for the coordinator to take them, while its storage hangs; further ones are refused at once.
pub const QUEUED_CALLS: u64 = 100_000;
/// Most ended holds remembered for one session.
pub const ENDED_HOLDS: usize = 10_000;
/// How long an ended hold or lease is remembered.
pub const ENDED_MEMORY_MS: u64 = 10 * 60 * 1000;
/// Most holds that a lease can be allowed to have.
pub const REENTRANCY_LIMIT: u32 = 1_000;

/// Shortest time to live.
pub const TTL_LEAST_MS: u64 = 1_000;
/// Longest time to live.
pub const TTL_MOST_MS: u64 = 24 * 60 * 60 * 1000;
/// Time to live when none is named.
pub const TTL_DEFAULT_MS: u64 = 15_000;
/// Longest wait of an acquire.
pub const WAIT_MOST_MS: u64 = 600_000;
/// Longest of the optional times of a lease: holding limit, least hold, delay after an unclean end.
pub const HOLD_MOST_MS: u64 = 366 * 24 * 60 * 60 * 1000;

/// Most rows of one page of a list.
pub const PAGE_MOST: usize = 1_000;
/// Rows of one page of a list when none are named.
pub const PAGE_DEFAULT: usize = 100;

/// Bits of a token that number the grant inside its epoch.
pub const SEQUENCE_BITS: u32 = 43;
/// Bits of a token that number the epoch.
pub const EPOCH_BITS: u32 = 20;
