//! Durations as people type them: `15s`, `500ms`, `2m`, `1h`.

use fencepost_core::{Invalid, LockDelay, MaxHold, MinHold, Rule, Ttl, Wait};

const FORM: &str = "a whole number with its unit, such as 500ms, 15s, 2m or 1h";

/// A quantity of the vocabulary that is typed as a duration.
pub(crate) trait Typed: Sized {
    /// Its name in the API, which messages use as well.
    const FIELD: &'static str;

    fn from_ms(ms: u64) -> Result<Self, Invalid>;

    /// Reads it.
    ///
    /// # Errors
    /// Names the field with its form or its limits; nothing is rounded.
    fn typed(text: &str) -> Result<Self, Invalid> {
        let ms = milliseconds(text).ok_or_else(|| Invalid::form(Self::FIELD, FORM))?;
        match ms {
            Some(ms) => Self::from_ms(ms),
            None => match Self::from_ms(u64::MAX) {
                Ok(_) => Err(Invalid::form(Self::FIELD, FORM)),
                Err(invalid) => Err(too_large(&invalid)),
            },
        }
    }
}

/// Milliseconds; the outer `None` for another form, the inner one where they do not fit.
fn milliseconds(text: &str) -> Option<Option<u64>> {
    let (digits, factor) = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)]
        .into_iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit).map(|digits| (digits, factor)))?;
    let is_plain = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    is_plain.then(|| digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)))
}

fn too_large(invalid: &Invalid) -> Invalid {
    match *invalid.rule() {
        Rule::Range { least, most, unit, .. } => {
            Invalid::new(invalid.field(), Rule::Range { least, most, found: None, unit })
        }
        Rule::Bytes { .. } | Rule::ControlCharacter { .. } | Rule::Form { .. } => invalid.clone(),
    }
}

macro_rules! typed {
    ($($name:ident = $field:literal),* $(,)?) => {$(
        impl Typed for $name {
            const FIELD: &'static str = $field;

            fn from_ms(ms: u64) -> Result<Self, Invalid> {
                Self::from_millis(ms)
            }
        }
    )*};
}

typed!(Ttl = "ttl_ms", Wait = "wait_ms", MaxHold = "max_hold_ms", MinHold = "min_hold_ms", LockDelay = "lock_delay_ms",);

/// Milliseconds for people: two digits that matter, and no more.
pub(crate) fn readable(ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{seconds}.{} s", ms % 1_000 / 100),
        10_000..120_000 => format!("{seconds} s"),
        120_000..7_200_000 => format!("{minutes} min"),
        7_200_000..172_800_000 => format!("{hours} h"),
        _ => format!("{} days", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_whole_number_with_its_unit() {
        for (text, ms) in [("1000ms", 1_000), ("15s", 15_000), ("2m", 120_000), ("1h", 3_600_000), ("24h", 86_400_000)]
        {
            assert_eq!(Ttl::typed(text).unwrap().as_millis(), ms, "{text}");
        }
        assert_eq!(Wait::typed("0s").unwrap().as_millis(), 0);
    }

    #[test]
    fn anything_else_is_refused_with_its_form() {
        for text in
            ["", "15", "s", "1.5s", "-1s", "+1s", " 1s", "1 s", "1s ", "01s", "1S", "1d", "1e3s", "１s", "1m30s"]
        {
            let refused = Ttl::typed(text).unwrap_err().to_string();
            assert_eq!(refused, format!("ttl_ms: must be {FORM}"), "{text:?}");
        }
    }

    #[test]
    fn limits_are_those_of_the_vocabulary_and_nothing_overflows() {
        let refused = |text: &str| Ttl::typed(text).unwrap_err().to_string();
        assert_eq!(refused("999ms"), "ttl_ms: must be 1000 to 86400000 ms, found 999");
        assert_eq!(refused("25h"), "ttl_ms: must be 1000 to 86400000 ms, found 90000000");
        let huge = "ttl_ms: must be 1000 to 86400000 ms, found a number too large to read";
        assert_eq!(refused("18446744073709551615h"), huge);
        assert_eq!(refused("99999999999999999999999ms"), huge);
        assert!(Wait::typed("601s").is_err());
    }
}
