use std::{fmt, str::FromStr};

use fencepost_core::{Domain, Invalid};
use serde_json::Value;

use super::message::{Answer, Request};

/// What stands for the value in a path or body.
pub const PLACEHOLDER: &str = "{value}";

/// Methods that must change nothing, and so are never the way to write.
const SAFE: [&str; 5] = ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"];
/// Most bytes of a path: what servers take without being asked.
const TARGET_BYTES: usize = 2_048;

/// A path on the service that is proved, with its query. Never an address: nothing but the service is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    /// Takes a path.
    ///
    /// # Errors
    /// When it does not begin with `/` or has bytes that would end the first line of a request.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !text.starts_with('/') || text.starts_with("//") || !is_plain || text.len() > TARGET_BYTES {
            return Err(Invalid::form("path", "a path such as /accounts/7, in ASCII, escaped where it must be"));
        }
        Ok(Self(text.to_owned()))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A method and the path that it is sent to, written `METHOD:PATH`. The method is one that may change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    method: String,
    target: Target,
}

impl Call {
    /// Takes both.
    ///
    /// # Errors
    /// When the method is not in capitals, or is one that must change nothing.
    pub fn new(method: &str, target: Target) -> Result<Self, Invalid> {
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_method || SAFE.contains(&method) {
            return Err(Invalid::form("method", "one that changes something, such as PUT, POST, PATCH or DELETE"));
        }
        Ok(Self { method: method.to_owned(), target })
    }

    pub(super) fn request(&self, body: &str, value: u64) -> Request {
        let value = value.to_string();
        Request {
            method: self.method.clone(),
            target: self.target.0.replace(PLACEHOLDER, &value),
            headers: Vec::new(),
            body: if self.has_body() { body.replace(PLACEHOLDER, &value).into_bytes() } else { Vec::new() },
        }
    }

    pub(super) fn has_body(&self) -> bool {
        self.method != "DELETE"
    }
}

impl FromStr for Call {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (method, path) =
            text.split_once(':').ok_or_else(|| Invalid::form("method", "METHOD:PATH, such as PUT:/accounts/7"))?;
        Self::new(method, Target::new(path)?)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.method, self.target.0)
    }
}

/// How to write to a service and how to read back what was written.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The domain that the service asks a token of for this resource.
    pub domain: Domain,
    /// How to set the value. The write must set and not add: a retry is noticed because the value goes back.
    pub write: Call,
    /// The body of every request that has one, with [`PLACEHOLDER`] where the value stands.
    pub body: String,
    /// Where to read the value.
    pub read: Target,
    /// Where the value stands in what is read, as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// How to advance the fence, where the service offers that.
    pub advance: Option<Call>,
    /// Further ways to change the resource.
    pub also: Vec<Call>,
    /// How many rounds of requests at one time.
    pub rounds: u32,
    /// Whether a process is really to be stopped before it sends.
    pub pause: bool,
    /// Whether a token of an epoch that nobody knows is sent, last of all.
    pub absurd: bool,
    /// Which hooks there are.
    pub hooks: Hooks,
}

/// Which parts of the service's life somebody else can arrange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// The service can be restarted.
    pub restart: bool,
    /// Its data can be backed up.
    pub backup: bool,
    /// Its data can be restored from that backup.
    pub restore: bool,
}

impl Plan {
    /// Whether what the plan says can show anything.
    ///
    /// # Errors
    /// When the value is nowhere in the write, or the pointer is none.
    pub fn check(&self) -> Result<(), Invalid> {
        let carries =
            (self.write.has_body() && self.body.contains(PLACEHOLDER)) || self.write.target.0.contains(PLACEHOLDER);
        if !carries {
            return Err(Invalid::form(
                "body",
                "a text with {value} where the value stands, such as {\"value\": {value}}",
            ));
        }
        if !self.pointer.is_empty() && !self.pointer.starts_with('/') {
            return Err(Invalid::form("read_pointer", "a JSON pointer, such as /value, or empty for the whole of it"));
        }
        Ok(())
    }

    /// The value in what a read answered. `None` where there is none: the resource may be gone.
    pub(super) fn value(&self, answer: &Answer) -> Option<String> {
        value_at(&self.pointer, answer)
    }
}

/// The value at this place of what was read, where it is a number or a text.
pub(super) fn value_at(pointer: &str, answer: &Answer) -> Option<String> {
    let body: Value = answer.is_success().then(|| serde_json::from_slice(&answer.body).ok())??;
    match body.pointer(pointer)? {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_on_the_service() {
        assert!(Target::new("/accounts/7?x=1").is_ok());
        for bad in ["", "accounts", "//elsewhere/x", "http://elsewhere/", "/a b", "/a\r\nX: y", "/ä", "/a#b"] {
            assert!(Target::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_call_is_a_method_that_changes_something() {
        assert_eq!("DELETE:/a".parse::<Call>().unwrap().to_string(), "DELETE:/a");
        for bad in ["", "/a", "PUT", "put:/a", "GET:/a", "HEAD:/a", "PUT:a", "PU T:/a", ":/a"] {
            assert!(bad.parse::<Call>().is_err(), "{bad:?}");
        }
    }
}
