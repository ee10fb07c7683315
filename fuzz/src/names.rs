use std::{fmt::Display, str::FromStr};

use fencepost_coordinator::embedded::testing::boot_in;
use fencepost_core::{
    BootId, Contract, Domain, Epoch, Grant, Holder, Issuer, LeaseId, OperationId, Reason, RecoveryId, RequestId,
    Secret, SecretHash, SessionId, Token,
    fence::{Closure, RejectedBy},
    limits,
};
use fencepost_wire::{ErrorCode, VerdictCode};
use serde::{Serialize, de::DeserializeOwned};

pub fn taken() {
    fn is_taken<T: FromStr>(text: &str) {
        assert!(text.parse::<T>().is_ok(), "{text} is no {}", std::any::type_name::<T>());
    }
    fn is_read<T: DeserializeOwned>(json: &str) {
        assert!(serde_json::from_str::<T>(json).is_ok(), "{json} is no {}", std::any::type_name::<T>());
    }
    for name in ["a", "invoices/2026-11", "\u{e9} \u{1F600}"] {
        is_taken::<Domain>(name);
        is_taken::<Holder>(name);
        is_taken::<Issuer>(name);
        is_taken::<OperationId>(name);
        is_taken::<Reason>(name);
    }
    let (id, key) = ("00112233445566778899aabbccddeeff", "07".repeat(32));
    is_taken::<LeaseId>(id);
    is_taken::<SessionId>(id);
    is_taken::<RequestId>(id);
    is_taken::<BootId>(id);
    is_taken::<RecoveryId>(id);
    is_taken::<SecretHash>(&key);
    is_taken::<Secret>(&key);
    is_taken::<Contract>("admission");
    is_taken::<ErrorCode>("held");
    is_read::<VerdictCode>(r#""stale_token""#);
    is_read::<Closure>(r#""by_operator""#);
    is_read::<RejectedBy>(r#""unfenced_floor""#);
    for token in ["0.1", "8016.3", "1048575.8796093022207", "70509481666019331"] {
        is_taken::<Token>(token);
    }
    is_read::<Token>(r#""70509481666019331""#);
    is_read::<Grant>(&format!(
        r#"{{"issuer":"i","domain":"d","token":"7","lease":"{id}","session":"{id}","contract":"safety"}}"#
    ));
    let boot = boot_in("00112233-4455-6677-8899-aabbccddeeff\n").expect("a boot, as the kernel writes it");
    assert_eq!(boot.to_string(), id);
}

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
    if let Ok(boot) = boot_in(text) {
        assert_eq!(boot.to_string(), text.trim().replace('-', ""), "{text:?}");
    }
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
