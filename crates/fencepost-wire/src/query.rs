//! Query strings, read strictly: what is not UTF-8 is refused and never replaced, so two names never become one.

use fencepost_core::Invalid;

/// Reads `name=value&…` into the slots of the names that are known.
pub(crate) fn read<const N: usize>(query: &str, names: [&'static str; N]) -> Result<[Option<String>; N], Invalid> {
    let mut values = [const { None }; N];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = unescape(name).ok_or_else(|| Invalid::form("query", "percent-encoded UTF-8"))?;
        let Some(at) = names.iter().position(|known| *known == name) else {
            return Err(Invalid::form("query", "made of the parameters that this call knows"));
        };
        if values[at].is_some() {
            return Err(Invalid::form(names[at], "given once"));
        }
        values[at] = Some(unescape(value).ok_or_else(|| Invalid::form(names[at], "percent-encoded UTF-8"))?);
    }
    Ok(values)
}

/// Writes the values that are there as `name=value&…`.
pub(crate) fn write(pairs: &[(&str, Option<&str>)]) -> String {
    let pair = |(name, value): &(&str, Option<&str>)| value.map(|value| format!("{name}={}", escape(value)));
    pairs.iter().filter_map(pair).collect::<Vec<_>>().join("&")
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b'+' => b' ',
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn escape(text: &str) -> String {
    use std::fmt::Write as _;

    text.bytes().fold(String::with_capacity(text.len()), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => escaped.push(byte.into()),
            other => write!(escaped, "%{other:02X}").expect("writing to a string cannot fail"),
        }
        escaped
    })
}
