//! The other end of the HTTP comparison: the same web stack with nothing behind it.

use axum::{Router, body::Bytes, routing::post};

/// Serves an empty handler on a free port, which it prints, until it is killed.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        println!("listening on http://{}", listener.local_addr().expect("an address"));
        let app = Router::new().route("/", post(|_: Bytes| async { "{}" }));
        axum::serve(
            axum::serve::ListenerExt::tap_io(listener, |tcp| {
                let _ = tcp.set_nodelay(true);
            }),
            app,
        )
        .await
        .expect("serving");
    });
}
