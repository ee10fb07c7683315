//! Small services for `fencepost prove`: a correct one, and five with one typical mistake each.
//!
//! `cargo run -p fencepost-cli --example services -- correct --data bank.db` serves accounts that have one value each:
//! `PUT` and `DELETE` and `GET /accounts/ID`, and `POST /accounts/ID/fence` to advance. Read `correct.rs` first; the
//! others are what it becomes by one slip. `common.rs` has what is not the point: routes, headers, SQL.

mod check_outside;
mod common;
mod correct;
mod delete_unchecked;
mod equality;
mod fence_in_memory;
mod replay_after_staleness;

use std::{error::Error, io::ErrorKind, path::PathBuf, time::Duration};

use axum::Router;
use clap::{Parser, ValueEnum};
use common::Bank;
use fencepost_core::Token;
use tokio::net::TcpListener;

/// A service to prove.
#[derive(Parser)]
pub(crate) struct Args {
    /// Which one
    kind: Kind,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// The database; made where there is none
    #[arg(long)]
    data: PathBuf,
    /// Recovered after a restore: nothing below this token is accepted any more
    #[arg(long, value_parser = Token::from_decimal)]
    floor: Option<Token>,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    Correct,
    CheckOutside,
    DeleteUnchecked,
    Equality,
    FenceInMemory,
    ReplayAfterStaleness,
}

impl Kind {
    fn router(self, bank: Bank) -> Router {
        let router = match self {
            Self::Correct => common::routes(correct::change),
            Self::CheckOutside => check_outside::routes_checked(bank.clone()),
            Self::DeleteUnchecked => delete_unchecked::routes(),
            Self::Equality => common::routes(equality::change),
            Self::FenceInMemory => common::routes(fence_in_memory::change),
            Self::ReplayAfterStaleness => common::routes(replay_after_staleness::change),
        };
        router.with_state(bank)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    serve(&Args::parse())
}

/// Serves until the process ends.
pub(crate) fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let bank = Bank::open(&args.data, args.floor)?;
        let listener = bind(&args.listen).await?;
        println!("listening on http://{}", listener.local_addr()?);
        Ok(axum::serve(listener, args.kind.router(bank)).await?)
    })
}

async fn bind(address: &str) -> std::io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind(address).await {
            // The process before this one may not be quite gone.
            Err(error) if error.kind() == ErrorKind::AddrInUse && tries < 200 => tries += 1,
            bound => return bound,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
