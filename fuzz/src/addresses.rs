use fencepost_cli::fuzzing::{header, impossible_port, service};
use fencepost_client::fuzzing::address;
use fencepost_testkit::prove::{Call, Target};

pub fn taken() {
    assert_eq!(address("http://[::1]:7421/a/", "/v1/leases").as_deref(), Ok("http://[::1]:7421/a/v1/leases"));
    assert_eq!(impossible_port("http://h:0/"), Some("0"));
    assert_eq!(impossible_port("http://h:7421/"), None);
    assert_eq!(service("http://127.0.0.1:8/a"), Ok(("127.0.0.1:8".to_owned(), "/a".to_owned())));
    assert!(Target::new("/accounts/7?x=1").is_ok());
    assert!("PUT:/accounts/7".parse::<Call>().is_ok());
    assert_eq!(header("X-Key: a:b"), Some(("X-Key".to_owned(), "a:b".to_owned())));
}

/// Addresses, paths and headers as somebody types them: what is taken cannot end a line of a request early, or lead to
/// somebody else.
pub fn addresses(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let one_line = |text: &str| text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    if let Ok(whole) = address(text, "/v1/leases") {
        assert!(whole.starts_with("http://") && whole.ends_with("/v1/leases"), "{text:?} is {whole:?}");
        assert!(one_line(&whole) && !whole.contains(['?', '#']), "{text:?} is {whole:?}");
        let uri: http::Uri = whole.parse().unwrap_or_else(|error| panic!("{text:?} is {whole:?}: {error}"));
        assert!(uri.host().is_some_and(|host| !host.is_empty()), "{text:?} names no host");
        assert!(uri.authority().is_some_and(|at| !at.as_str().contains('@')), "{text:?} names somebody");
        if impossible_port(text).is_none() {
            assert!(uri.port().is_none() || uri.port_u16().is_some_and(|port| port > 0), "{text:?} has no such port");
        }
    }
    if let Ok((host, path)) = service(text) {
        assert!(!host.is_empty() && one_line(&host) && !host.contains(['@', '/', '?', '#']), "{text:?}: {host:?}");
        assert!(path.starts_with('/') && one_line(&path), "{text:?}: {path:?}");
    }
    if let Ok(target) = Target::new(text) {
        assert_eq!(target.as_str(), text);
        assert!(one_line(text) && text.starts_with('/') && !text.starts_with("//"), "{text:?}");
    }
    if let Ok(call) = text.parse::<Call>() {
        assert_eq!(call.to_string(), text);
        assert!(one_line(text), "{text:?}");
    }
    if let Some((name, value)) = header(text) {
        assert!(!name.is_empty() && one_line(&name) && !name.contains(':'), "{text:?}: {name:?}");
        assert!(!value.contains(|character: char| character.is_ascii_control()), "{text:?}: {value:?}");
    }
}
