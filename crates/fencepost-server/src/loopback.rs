//! Who may talk to a server on loopback: a page of a foreign site must not, even where it got its own name to point
//! at 127.0.0.1.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderName, Request, header};
use fencepost_wire::{ErrorCode, Problem};

/// Refuses a request whose host is not a loopback name, or that a foreign page sent.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Box<Problem>> {
    let host = match request.headers().get(header::HOST) {
        // A proxy-style target overrides the header, so both have to pass.
        Some(value) if single(request.headers(), header::HOST) => value.to_str().ok(),
        Some(_) | None => None,
    };
    let target = request.uri().authority().map_or(Some(""), |authority| Some(authority.as_str()));
    match host {
        Some(host) if is_loopback(host) && target.is_some_and(|target| target.is_empty() || is_loopback(target)) => {
            check_origin(request.headers(), host)
        }
        Some(_) | None => {
            let detail = "a server on loopback takes requests for loopback names only: localhost, 127.0.0.1, [::1]";
            Err(Box::new(Problem::new(ErrorCode::HostRefused, detail)))
        }
    }
}

fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), Box<Problem>> {
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|rest| rest.eq_ignore_ascii_case(host));
    match headers.get(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if single(headers, header::ORIGIN) && origin.to_str().is_ok_and(own) => Ok(()),
        Some(_) => {
            let detail = "the Origin of the request is not this server's own";
            Err(Box::new(Problem::new(ErrorCode::OriginRefused, detail)))
        }
    }
}

fn single(headers: &HeaderMap, name: HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_none()
}

fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => {
                return name.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback()) && is_port(port);
            }
            None => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_name = name == "localhost" || name.ends_with(".localhost");
    is_port(port) && (is_name || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()))
}

/// Nothing, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_passes(host: &str) -> bool {
        check(&Request::builder().uri("/").header("host", host).body(()).unwrap()).is_ok()
    }

    #[test]
    fn any_loopback_name_with_any_port_passes_and_nothing_else() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7421", "127.9.9.9", "[::1]", "[::1]:80", "a.localhost:9"] {
            assert!(host_passes(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7421",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "[::1",
            "localhost:x",
            "localhost:+1",
            "localhost:99999",
            "127.1",
            "0.0.0.0",
            "user@localhost",
        ] {
            assert!(!host_passes(host), "{host}");
        }
    }

    #[test]
    fn a_request_without_a_host_or_with_two_is_refused() {
        assert!(check(&Request::builder().uri("/").body(()).unwrap()).is_err());
        let two = Request::builder().uri("/").header("host", "localhost").header("host", "localhost");
        assert!(check(&two.body(()).unwrap()).is_err());
    }

    #[test]
    fn a_target_that_names_a_foreign_host_is_refused_whatever_the_header_says() {
        let foreign = Request::builder().uri("http://evil.example/").header("host", "localhost");
        assert!(check(&foreign.body(()).unwrap()).is_err());
    }

    #[test]
    fn only_the_servers_own_page_may_send_an_origin() {
        let from = |origin: &str| {
            let request = Request::builder().uri("/").header("host", "localhost:7421").header("origin", origin);
            check(&request.body(()).unwrap()).is_ok()
        };
        assert!(from("http://localhost:7421"));
        for origin in
            ["http://evil.example", "null", "", "http://localhost", "https://localhost:7421", "http://localhost:7422"]
        {
            assert!(!from(origin), "{origin}");
        }
    }
}
