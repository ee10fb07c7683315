use serde::{Deserialize, Serialize};

/// The whole durable state of a coordinator, opaque but for its encoding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {}
