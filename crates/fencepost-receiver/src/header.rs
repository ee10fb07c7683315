//! Header names of a service that is itself a receiver. Header names compare without regard to case; these are in the
//! lower-case form that HTTP/2 sends.

/// The grant in its signed form.
pub const GRANT: &str = "fencepost-grant";
/// The token, as a decimal string, where the grant is not signed. Comes with [`DOMAIN`].
pub const TOKEN: &str = "fencepost-token";
/// The domain that the token was granted for.
pub const DOMAIN: &str = "fencepost-domain";
/// The operation id.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The token under which the operation was first named, as a decimal string.
pub const OPERATION_BORN: &str = "fencepost-operation-born";
/// The verdict in an answer: a [`VerdictCode`](crate::VerdictCode).
pub const VERDICT: &str = "fencepost-verdict";
