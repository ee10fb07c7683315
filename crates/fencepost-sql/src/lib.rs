//! Fencing for SQL databases as text: schema, statements, guard triggers and the reading of what comes back.
//!
//! No driver, no connection, no IO: an adapter crate runs these texts on the user's own transaction, and a program in
//! another language may do the same. The statements are constants; only guard triggers are composed, because they name
//! the columns and unique indexes of the table they protect.
//!
//! What a fenced write does on SQLite, each step a statement of [`sqlite::statement`], all in one transaction that was
//! begun with `BEGIN IMMEDIATE`:
//!
//! 1. `STANDING` reads the receiver and the domain; [`sqlite::standing`] makes of it what
//!    [`decide`](fencepost_core::fence::decide) looks at;
//! 2. `INSERT_FENCE` and `COUNT_FENCES`, or `RAISE_FENCE`, only where the token is greater than the fence;
//! 3. `ENTER`, which opens the guarded tables for the rows of this domain;
//! 4. the mutation;
//! 5. `RECORD`, where the write names an operation, then `LEAVE`, which closes the tables and raises the counter.

pub mod sqlite;
