//! What may be spoken to: one address, of this machine unless the user says that the other one is theirs.

use std::net::{IpAddr, SocketAddr};

use fencepost_core::Invalid;
use fencepost_testkit::prove::Target;
use tokio::net::lookup_host;

use crate::{exit::Exit, failure::Failure};

const FORM: &str = "http://HOST:PORT/PATH, such as http://127.0.0.1:8080/accounts/7";

/// The service, as the URL names it.
pub(super) struct Service {
    /// What stands in `Host`.
    pub(super) host: String,
    name: String,
    port: u16,
    pub(super) target: Target,
}

impl Service {
    /// # Errors
    /// When it is no such URL, or one that another protocol is needed for.
    pub(super) fn parse(url: &str) -> Result<Self, Failure> {
        let malformed = || Invalid::form("url", FORM);
        if url.starts_with("https://") {
            return Err(Failure::new(Exit::Usage, "prove speaks no TLS")
                .then("prove the service behind its proxy: name the port on which it speaks plain HTTP"));
        }
        let rest = url.strip_prefix("http://").ok_or_else(malformed)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(
                Failure::new(Exit::Usage, "url: credentials do not belong there").then("--header 'Authorization: …'")
            );
        }
        let (name, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, port)) => (name, port.strip_prefix(':').map_or(port.is_empty().then_some("80"), Some)),
            None => authority.split_once(':').map_or((authority, Some("80")), |(name, port)| (name, Some(port))),
        };
        let port = port.and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0).ok_or_else(malformed)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(malformed().into());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let target = Target::new(&path).map_err(|invalid| invalid.named("url"))?;
        Ok(Self { host: authority.to_owned(), name: name.to_owned(), port, target })
    }

    /// The one address that is spoken to from now on.
    ///
    /// # Errors
    /// When there is none, or when it is of another machine and nobody said that this is right.
    pub(super) async fn resolve(&self, anywhere: bool) -> Result<SocketAddr, Failure> {
        let found = match self.name.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, self.port)],
            Err(_) => match lookup_host((self.name.as_str(), self.port)).await {
                Ok(found) => found.collect(),
                Err(error) => {
                    return Err(Failure::new(Exit::Unreachable, format!("{}: {error}", self.name))
                        .then("name the address of the service"));
                }
            },
        };
        // One that listens on the older of two loopback addresses only is the rule, so that one is first.
        let first = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first()).copied();
        let first = first.ok_or_else(|| {
            Failure::new(Exit::Unreachable, format!("{} has no address", self.name))
                .then("name the address of the service")
        })?;
        if !anywhere && !first.ip().to_canonical().is_loopback() {
            return Err(Failure::new(
                Exit::Usage,
                format!("{} is not on this machine, and prove writes to the service that it proves", self.host),
            )
            .then("prove a copy of the service on this machine")
            .then("or add --yes-this-is-mine, where a resource was made for it"));
        }
        Ok(first)
    }
}

/// Headers that a scenario, or the connection, decides about.
const OURS: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "expect",
    "fencepost-grant",
    "fencepost-token",
    "fencepost-domain",
    "fencepost-operation-born",
    "idempotency-key",
];

/// # Errors
/// When one is none, or one that a scenario decides about.
pub(super) fn headers(typed: &[String]) -> Result<Vec<(String, String)>, Invalid> {
    let form = || Invalid::form("header", "'NAME: VALUE', of a header that no scenario is about");
    let parse = |text: &String| {
        let (name, value) = text.split_once(':').ok_or_else(form)?;
        let value = value.trim();
        let is_token = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        let is_ours = OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours));
        if !is_token || is_ours || value.chars().any(char::is_control) {
            return Err(form());
        }
        Ok((name.to_owned(), value.to_owned()))
    };
    typed.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Option<(String, String, u16, String)> {
        let service = Service::parse(url).ok()?;
        Some((service.host, service.name, service.port, service.target.as_str().to_owned()))
    }

    #[test]
    fn a_url_is_a_host_a_port_and_a_path() {
        let expected =
            |host: &str, name: &str, port, path: &str| Some((host.to_owned(), name.to_owned(), port, path.to_owned()));
        assert_eq!(parsed("http://h:1/a?b=c"), expected("h:1", "h", 1, "/a?b=c"));
        assert_eq!(parsed("http://h"), expected("h", "h", 80, "/"));
        assert_eq!(parsed("http://[::1]:8/a"), expected("[::1]:8", "::1", 8, "/a"));
        assert_eq!(parsed("http://[::1]/a"), expected("[::1]", "::1", 80, "/a"));
        for bad in [
            "",
            "h",
            "ftp://h/",
            "https://h/",
            "http://",
            "http:///a",
            "http://h:0/",
            "http://h:x/",
            "http://u:p@h/",
            "http://h:70000/",
            "http://[::1]x/",
            "http://a b/",
            "http://h/a b",
        ] {
            assert!(parsed(bad).is_none(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn only_this_machine_is_spoken_to_unless_it_is_said() {
        for here in [
            "http://127.0.0.1:1/",
            "http://127.3.2.1:1/",
            "http://localhost:1/",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]:1/",
        ] {
            assert!(Service::parse(here).unwrap().resolve(false).await.is_ok(), "{here}");
        }
        for elsewhere in
            ["http://192.0.2.1/", "http://0.0.0.0:1/", "http://[2001:db8::1]:1/", "http://[::ffff:192.0.2.1]/"]
        {
            let service = Service::parse(elsewhere).unwrap();
            assert_eq!(service.resolve(false).await.unwrap_err().code(), Exit::Usage.code(), "{elsewhere}");
            assert!(service.resolve(true).await.is_ok(), "{elsewhere}");
        }
    }

    #[test]
    fn a_header_that_a_scenario_is_about_is_refused() {
        let one = |text: &str| headers(&[text.to_owned()]);
        assert_eq!(one("Authorization: Bearer x:y").unwrap(), [("Authorization".to_owned(), "Bearer x:y".to_owned())]);
        for bad in [
            "",
            "x",
            ": y",
            "a b: c",
            "fencepost-TOKEN: 1",
            "Fencepost-Grant: x",
            "Host: h",
            "Idempotency-Key: 1",
            "a: b\r\nc: d",
        ] {
            assert!(one(bad).is_err(), "{bad:?}");
        }
    }
}
