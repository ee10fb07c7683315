//! What every receiver with a storage of its own needs besides the decision. Nothing here decides.

mod birth;
mod blocking;
mod misread;
mod rejected;

pub use birth::{first_counter, fresh_recovery_id};
pub use blocking::on_a_thread;
#[doc(hidden)]
pub use misread::misread;
pub use rejected::log_rejection;
