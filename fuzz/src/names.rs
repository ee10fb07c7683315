use std::{fmt::Display, str::FromStr};

use fencepost_core::{
    BootId, Contract, Domain, Epoch, Grant, Holder, Issuer, LeaseId, OperationId, Reason, RecoveryId, RequestId,
    Secret, SecretHash, SessionId, Token,
    fence::{Closure, RejectedBy},
    limits,
};
use fencepost_wire::{ErrorCode, VerdictCode};
use serde::{Serialize, de::DeserializeOwned};

/// Names, numbers and grants as people and programs write them: what is taken says the same when it is written again.
pub fn names(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    verbatim::<Domain>(text, limits::DOMAIN_BYTES);
    verbatim::<Holder>(text, limits::HOLDER_BYTES);
    verbatim::<Issuer>(text, limits::ISSUER_BYTES);
    verbatim::<OperationId>(text, limits::OPERATION_ID_BYTES);
    verbatim::<Reason>(text, limits::REASON_BYTES);
    again::<LeaseId>(text);
    again::<SessionId>(text);
    again::<RequestId>(text);
    again::<BootId>(text);
    again::<RecoveryId>(text);
    let _ = text.parse::<SecretHash>();
    let _ = text.parse::<Secret>();
    word::<Contract>(text);
    word::<ErrorCode>(text);
    quoted::<VerdictCode>(text);
    quoted::<Closure>(text);
    quoted::<RejectedBy>(text);
    if let Ok(token) = text.parse::<Token>() {
        assert!(token.as_i64() > 0, "{text:?} is token {token}");
        assert_eq!(token.to_string().parse::<Token>().as_ref(), Ok(&token), "{text:?}");
        assert_eq!(Token::new(token.epoch(), token.sequence()).as_ref(), Ok(&token), "{text:?}");
        assert!(u32::from(token.epoch()) <= u32::from(Epoch::MAX));
        json(&token);
    }
    if let Ok(grant) = serde_json::from_slice::<Grant>(bytes) {
        assert!(grant.token.as_i64() > 0);
        json(&grant);
    }
}

/// A name is taken as it is: never cut, never normalised.
fn verbatim<T: FromStr + Display>(text: &str, most: usize) {
    if let Ok(name) = text.parse::<T>() {
        assert_eq!(name.to_string(), text);
        assert!((1..=most).contains(&text.len()), "{} bytes", text.len());
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

/// A word is taken to the letter, typed or in JSON.
fn word<T: FromStr + Display + Serialize + DeserializeOwned + PartialEq>(text: &str) {
    if let Ok(word) = text.parse::<T>() {
        assert_eq!(word.to_string(), text);
    }
    quoted::<T>(text);
}

fn quoted<T: Serialize + DeserializeOwned + PartialEq>(text: &str) {
    if let Ok(word) = serde_json::from_value::<T>(text.into()) {
        assert_eq!(serde_json::to_value(&word).expect("a word has a JSON form"), text);
        json(&word);
    }
}

fn again<T: FromStr + Display + PartialEq>(text: &str) {
    if let Ok(id) = text.parse::<T>() {
        assert!(id.to_string().parse::<T>().is_ok_and(|same| same == id), "{text:?}");
    }
}

fn json<T: Serialize + DeserializeOwned + PartialEq>(value: &T) {
    let text = serde_json::to_string(value).expect("it has a JSON form");
    assert!(serde_json::from_str::<T>(&text).is_ok_and(|same| same == *value), "{text}");
}
