//! The commands, one file each: its arguments, what it does, what it says.

pub(crate) mod acquire;
pub(crate) mod advance;
pub(crate) mod audit;
pub(crate) mod breaking;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod completions;
pub(crate) mod explain;
pub(crate) mod guard;
pub(crate) mod handing;
pub(crate) mod history;
pub(crate) mod ls;
pub(crate) mod prove;
pub(crate) mod read;
pub(crate) mod recover;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod unguard;
pub(crate) mod watch;
pub(crate) mod write;
