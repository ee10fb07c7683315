//! Doors to what this client reads, for the fuzzer: the same code as behind a connection, without one.

use bytes::Bytes;
use http::Response;

use super::{CoordinatorEvent, HttpCoordinator, UrlError, events::Frames, exchange::Reply, url::Base};

/// The events of a stream that comes in these pieces, and why it was given up, where it was.
pub fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<CoordinatorEvent>, Option<String>) {
    let (mut frames, mut events) = (Frames::default(), Vec::new());
    for piece in pieces {
        frames.take(piece);
        loop {
            match frames.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(why) => return (events, Some(why)),
            }
        }
    }
    (events, None)
}

/// Where a call to this path goes, when the coordinator has this address.
///
/// # Errors
/// When it is no address that can be used.
pub fn address(url: &str, path: &str) -> Result<String, UrlError> {
    Ok(url.parse::<Base>()?.join(path))
}

impl HttpCoordinator {
    /// The same coordinator, of which every call but [`events`](Self::events) is answered with this and sends nothing.
    /// `None` where no HTTP answer can have such a head.
    #[must_use]
    pub fn answering(&self, status: u16, content_type: &[u8], body: &[u8]) -> Option<Self> {
        let head = Response::builder().status(status).header(http::header::CONTENT_TYPE, content_type).body(()).ok()?;
        let reply = Reply::new(&head.into_parts().0, Bytes::copy_from_slice(body));
        Some(Self { answer: Some(reply), ..self.clone() })
    }
}
