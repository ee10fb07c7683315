//! A door to what the proxy reads, for the fuzzer.

use std::io;

use tokio::io::AsyncRead;

use super::message::Buffer;

/// What is passed on of a connection on which this comes, until it ends or is no HTTP.
pub async fn passed_on(mut from: impl AsyncRead + Unpin) -> (Vec<u8>, io::Result<()>) {
    let (mut buffer, mut to) = (Buffer::default(), Vec::new());
    loop {
        let head = match buffer.head(&mut from).await {
            Ok(Some(head)) => head,
            Ok(None) => return (to, Ok(())),
            Err(error) => return (to, Err(error)),
        };
        let _ = (head.path(), head.status());
        to.extend_from_slice(head.bytes());
        if let Err(error) = buffer.body(&mut from, &mut to, &head).await {
            return (to, Err(error));
        }
    }
}
