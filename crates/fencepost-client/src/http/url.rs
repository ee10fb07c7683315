use std::str::FromStr;

use http::Uri;

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the coordinator's address {url:?} {why}; use http://HOST:PORT")]
pub struct UrlError {
    url: String,
    why: &'static str,
}

/// Where the coordinator is, without a slash at the end: a path can be appended.
#[derive(Clone, Debug)]
pub(super) struct Base(String);

impl Base {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl FromStr for Base {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let refuse = |why| UrlError { url: url.to_owned(), why };
        let uri: Uri = url.parse().map_err(|_| refuse("is not an address"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(refuse("asks for TLS, which this version does not speak")),
            Some(_) | None => return Err(refuse("does not begin with http://")),
        }
        // A colon with nothing in front of it is an authority too.
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| refuse("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("has a user name, which would be ignored"));
        }
        if uri.query().is_some() || url.contains('#') {
            return Err(refuse("has a query or a fragment"));
        }
        Ok(Self(format!("http://{authority}{}", uri.path().trim_end_matches('/'))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_with_and_without_a_slash_or_a_path_in_front_of_the_api() {
        for (url, base) in [
            ("http://127.0.0.1:7421", "http://127.0.0.1:7421"),
            ("http://127.0.0.1:7421/", "http://127.0.0.1:7421"),
            ("http://[::1]:7421", "http://[::1]:7421"),
            ("http://proxy.example/fencepost/", "http://proxy.example/fencepost"),
        ] {
            assert_eq!(url.parse::<Base>().unwrap().as_str(), base);
        }
    }

    #[test]
    fn an_address_that_would_be_misunderstood_is_refused_and_the_error_says_why() {
        for (url, why) in [
            ("https://127.0.0.1:7421", "asks for TLS, which this version does not speak"),
            ("127.0.0.1:7421", "does not begin with http://"),
            ("localhost", "does not begin with http://"),
            ("ftp://localhost", "does not begin with http://"),
            ("http://user:pass@localhost", "has a user name, which would be ignored"),
            ("http://localhost/?a=b", "has a query or a fragment"),
            ("http://localhost/#a", "has a query or a fragment"),
            ("", "is not an address"),
            ("http://", "is not an address"),
            ("http://:", "names no host"),
            ("http://:7421/", "names no host"),
        ] {
            assert_eq!(url.parse::<Base>().unwrap_err().why, why, "{url:?}");
        }
    }
}
