//! The other ends of the HTTP comparison, on the same web stack: a handler with nothing behind it, and one that answers
//! when something is durable.

use std::path::Path;

use anyhow::Result;
use axum::{Router, body::Bytes, routing::post};
use tokio::runtime::Builder;

use crate::raw::GroupCommit;

/// Serves an empty handler on a free port, which it prints, until it is killed.
pub(crate) fn serve_empty() -> Result<()> {
    serve(&mut Builder::new_multi_thread(), post(|_: Bytes| async { "{}" }))
}

/// The same handler, which waits for a group commit in this folder before it answers: the least that a durable answer
/// can cost. It has the threads of the coordinator's server: one for the writer, the other cores for the requests.
pub(crate) fn serve_durable(dir: &Path) -> Result<()> {
    let commit = GroupCommit::start(dir)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let handler = move |_: Bytes| {
        let durable = commit.join();
        async {
            durable.await.expect("the writer answers whom it has heard");
            "{}"
        }
    };
    serve(Builder::new_multi_thread().worker_threads(cores.saturating_sub(1).max(1)), post(handler))
}

fn serve(runtime: &mut Builder, handler: axum::routing::MethodRouter) -> Result<()> {
    runtime.enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("listening on http://{}", listener.local_addr()?);
        let at_once = axum::serve::ListenerExt::tap_io(listener, |tcp| {
            let _ = tcp.set_nodelay(true);
        });
        Ok(axum::serve(at_once, Router::new().route("/", handler)).await?)
    })
}
