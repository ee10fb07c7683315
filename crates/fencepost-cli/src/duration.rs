//! Durations as people type them: `15s`, `500ms`, `2m`, `1h`.

use fencepost_core::{Invalid, LockDelay, MaxHold, MinHold, Rule, Ttl, Wait, limits::HOLD_MOST_MS};
use fencepost_wire::Problem;

use crate::{exit::Exit, failure::Failure};

const FORM: &str = "a whole number with its unit, such as 500ms, 15s, 2m or 1h";

/// A quantity of the vocabulary that is typed as a duration.
pub(crate) trait Typed: Sized {
    /// The option that it is typed after, which is how people know it.
    const OPTION: &'static str;
    /// Its name in the API, which programs know.
    const FIELD: &'static str;

    fn from_ms(ms: u64) -> Result<Self, Invalid>;

    /// Reads it.
    ///
    /// # Errors
    /// Names the option with its form or its limits; nothing is rounded.
    fn typed(text: &str) -> Result<Self, Failure> {
        let ms = milliseconds(text).ok_or_else(|| not_a_duration::<Self>(text))?;
        match ms {
            Some(ms) => Self::from_ms(ms).map_err(|invalid| refused::<Self>(text, &invalid)),
            None => Err(match Self::from_ms(u64::MAX) {
                Ok(_) => refused::<Self>(text, &Invalid::form(Self::FIELD, FORM)),
                Err(invalid) => refused::<Self>(text, &too_large(&invalid)),
            }),
        }
    }
}

/// Something of another form. What only has a sign too many is told the limits.
fn not_a_duration<T: Typed>(text: &str) -> Failure {
    let form = Invalid::form(T::FIELD, FORM);
    let has_sign = text.strip_prefix(['-', '+']).is_some_and(|rest| milliseconds(rest).is_some());
    match T::from_ms(u64::MAX) {
        Err(limits) if has_sign => refused_for::<T>(text, &limits, form),
        Ok(_) | Err(_) => refused::<T>(text, &form),
    }
}

/// The rule that was broken, in the words of whoever typed it; beside it the same for programs, as the API has it.
pub(crate) fn refused<T: Typed>(text: &str, invalid: &Invalid) -> Failure {
    refused_for::<T>(text, invalid, invalid.clone())
}

fn refused_for<T: Typed>(text: &str, invalid: &Invalid, for_programs: Invalid) -> Failure {
    let option = T::OPTION;
    let what = match *invalid.rule() {
        Rule::Range { least, most, .. } => {
            format!("{option}: must be {} to {}, found {}", as_typed(least), as_typed(most), shown(text))
        }
        Rule::Bytes { .. } | Rule::ControlCharacter { .. } | Rule::Form { .. } => {
            format!("{option}: {}, found {:?}", invalid.rule(), shown(text))
        }
    };
    Failure::new(Exit::Usage, what)
        .then(crate::failure::FORMS)
        .with_problem(Problem::from(for_programs.named(T::FIELD)))
}

/// As much of it as helps to find it.
fn shown(text: &str) -> String {
    if text.chars().count() <= 40 {
        text.to_owned()
    } else {
        format!("{}…", text.chars().take(40).collect::<String>())
    }
}

/// Milliseconds as somebody would type them, exactly.
pub(crate) fn as_typed(ms: u64) -> String {
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let (unit, size) = units.into_iter().find(|(_, size)| ms >= *size && ms.is_multiple_of(*size)).unwrap_or(("ms", 1));
    if ms == 0 { "0s".to_owned() } else { format!("{}{unit}", ms / size) }
}

/// Milliseconds; the outer `None` for another form, the inner one where they do not fit.
pub(crate) fn milliseconds(text: &str) -> Option<Option<u64>> {
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
    ($($name:ident = $option:literal, $field:literal);* $(;)?) => {$(
        impl Typed for $name {
            const OPTION: &'static str = $option;
            const FIELD: &'static str = $field;

            fn from_ms(ms: u64) -> Result<Self, Invalid> {
                Self::from_millis(ms)
            }
        }
    )*};
}

typed! {
    Ttl = "--ttl", "ttl_ms";
    Wait = "--wait", "wait_ms";
    MaxHold = "--max-hold", "max_hold_ms";
    MinHold = "--min-hold", "min_hold_ms";
    LockDelay = "--lock-delay", "lock_delay_ms";
}

/// What has to be left of a lease for anybody to make use of it.
const LEAST_USE_MS: u64 = 500;

/// Refuses a holding time that would be over, or nearly so, when the lease is handed over: of the shorter of the two a
/// tenth of the TTL is a margin that no holder believes in, and `reserve` says what else is kept back of it. One that is
/// no shorter than the TTL takes nothing away, so it is not to blame.
///
/// # Errors
/// Says what the least would be that leaves something.
pub(crate) fn refuse_unusable(
    max_hold: Option<MaxHold>,
    ttl: Ttl,
    reserve: impl Fn(u64) -> u64,
) -> Result<(), Failure> {
    let Some(max_hold) = max_hold.map(MaxHold::as_millis) else { return Ok(()) };
    let margin = ttl.as_millis().div_ceil(10);
    let leaves_some = |hold: u64| hold >= ttl.as_millis() || hold >= margin + reserve(hold) + LEAST_USE_MS;
    if leaves_some(max_hold) {
        return Ok(());
    }
    let (held, lives) = (as_typed(max_hold), as_typed(ttl.as_millis()));
    let what = format!("--max-hold: {held} is too short beside --ttl {lives}, nothing would be left to work in");
    let least = (1_000..ttl.as_millis()).step_by(100).find(|hold| leaves_some(*hold)).unwrap_or(ttl.as_millis());
    let failure = Failure::new(Exit::Usage, what)
        .detail(format!(
            "the last {} before the end are a margin for clocks and for stopping",
            as_typed(margin + reserve(max_hold))
        ))
        .then(format!("--max-hold {} at least", as_typed(least)))
        .then("or a shorter --ttl");
    let failure = if reserve(max_hold) > 0 { failure.then("or a shorter --stop-after") } else { failure };
    let range = Rule::Range { least, most: HOLD_MOST_MS, found: Some(max_hold), unit: "ms" };
    Err(failure.with_problem(Problem::from(Invalid::new(MaxHold::FIELD, range))))
}

/// A time that has passed, for people: two digits that matter, rounded to the nearest.
pub(crate) fn readable(ms: u64) -> String {
    let rounded = |unit: u64| ms / unit + u64::from(ms % unit >= unit / 2);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..9_950 => format!("{}.{} s", rounded(100) / 10, rounded(100) % 10),
        9_950..119_500 => format!("{} s", rounded(1_000)),
        119_500..7_170_000 => format!("{} min", rounded(60_000)),
        7_170_000..171_000_000 => format!("{} h", rounded(3_600_000)),
        _ => format!("{} days", rounded(86_400_000)),
    }
}

/// A time that is left, for people: two digits that matter and no more than there is, because somebody relies on it.
pub(crate) fn readable_left(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        10_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
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

    fn refused<T: Typed>(text: &str) -> (String, String) {
        let told = T::typed(text).err().expect("it is refused").json();
        let said = |field: &str| told[field].as_str().unwrap_or_default().to_owned();
        (said("what"), said("detail"))
    }

    #[test]
    fn anything_else_is_refused_with_its_form() {
        for text in [
            "", "15", "s", "1.5s", "-1", "-1.5s", "--1s", " 1s", "1 s", "1s ", "01s", "1S", "1d", "1e3s", "１s",
            "1m30s",
        ] {
            let (people, programs) = refused::<Ttl>(text);
            assert_eq!(people, format!("--ttl: must be {FORM}, found {text:?}"));
            assert_eq!(programs, format!("ttl_ms: must be {FORM}"), "{text:?}");
        }
    }

    #[test]
    fn limits_are_those_of_the_vocabulary_and_nothing_overflows() {
        let (people, programs) = refused::<Ttl>("999ms");
        assert_eq!(people, "--ttl: must be 1s to 24h, found 999ms");
        assert_eq!(programs, "ttl_ms: must be 1000 to 86400000 ms, found 999");
        assert_eq!(refused::<Ttl>("25h").0, "--ttl: must be 1s to 24h, found 25h");
        for huge in ["18446744073709551615h", "99999999999999999999999ms"] {
            let (people, programs) = refused::<Ttl>(huge);
            assert_eq!(people, format!("--ttl: must be 1s to 24h, found {huge}"));
            assert_eq!(programs, "ttl_ms: must be 1000 to 86400000 ms, found a number too large to read");
        }
        for signed in ["-1s", "+1s", "-0s"] {
            let (people, programs) = refused::<Ttl>(signed);
            assert_eq!(people, format!("--ttl: must be 1s to 24h, found {signed}"));
            assert_eq!(programs, format!("ttl_ms: must be {FORM}"));
        }
        assert_eq!(refused::<Wait>("601s").0, "--wait: must be 0s to 10m, found 601s");
        assert!(refused::<Wait>(&format!("{}s", "9".repeat(1_000))).0.ends_with("9…"));
    }

    #[test]
    fn what_is_printed_as_a_duration_can_be_typed_as_one() {
        for (ms, text) in [(0, "0s"), (1, "1ms"), (1_000, "1s"), (1_500, "1500ms"), (90_000, "90s"), (120_000, "2m")] {
            assert_eq!(as_typed(ms), text);
            assert_eq!(milliseconds(text), Some(Some(ms)));
        }
        assert_eq!(as_typed(86_400_000), "24h");
    }

    #[test]
    fn durations_for_people_are_rounded_to_the_nearest() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_049, "1.0 s"),
            (1_050, "1.1 s"),
            (9_949, "9.9 s"),
            (9_950, "10 s"),
            (14_999, "15 s"),
            (119_499, "119 s"),
            (119_500, "2 min"),
            (3_599_000, "60 min"),
            (7_170_000, "2 h"),
            (86_399_000, "24 h"),
            (171_000_000, "2 days"),
            (u64::MAX, "213503982335 days"),
        ] {
            assert_eq!(readable(ms), text, "{ms}");
        }
    }

    /// Mutant: what is left is rounded to the nearest.
    #[test]
    fn of_what_is_left_nobody_is_told_more_than_there_is() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_099, "1.0 s"),
            (9_999, "9.9 s"),
            (10_999, "10 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (150_000, "2 min"),
            (179_999, "2 min"),
            (7_199_999, "119 min"),
            (7_200_000, "2 h"),
            (172_799_999, "47 h"),
            (172_800_000, "2 days"),
            (u64::MAX, "213503982334 days"),
        ] {
            assert_eq!(readable_left(ms), text, "{ms}");
        }
    }

    #[test]
    fn a_holding_time_no_shorter_than_the_ttl_is_not_to_blame() {
        let ttl = Ttl::from_millis(1_000).unwrap();
        refuse_unusable(Some(MaxHold::from_millis(1_000).unwrap()), ttl, |_| 550).unwrap();
        refuse_unusable(Some(MaxHold::from_millis(5_000).unwrap()), ttl, |_| 550).unwrap();
    }

    #[test]
    fn the_limits_that_programs_are_told_can_be_kept_to() {
        let (short, ttl) = (MaxHold::from_millis(1_000).unwrap(), Ttl::from_millis(1_150).unwrap());
        let told = refuse_unusable(Some(short), ttl, |_| 555).unwrap_err().json();
        assert_eq!(told["fix"], "--max-hold 1150ms at least / or a shorter --ttl / or a shorter --stop-after");
        assert_eq!(told["detail"], "max_hold_ms: must be 1150 to 31622400000 ms, found 1000");
        refuse_unusable(Some(MaxHold::from_millis(1_150).unwrap()), ttl, |_| 555).unwrap();
    }

    #[test]
    fn a_holding_time_that_leaves_nothing_is_refused_with_the_least_that_does() {
        let ms = |ms| (Some(MaxHold::from_millis(ms).unwrap()), Ttl::from_millis(15_000).unwrap());
        let (short, ttl) = ms(1_500);
        let told = refuse_unusable(short, ttl, |_| 0).unwrap_err().json();
        assert_eq!(told["what"], "--max-hold: 1500ms is too short beside --ttl 15s, nothing would be left to work in");
        assert!(told["fix"].as_str().unwrap().starts_with("--max-hold 2s at least"), "{told}");
        let (least, ttl) = ms(2_000);
        refuse_unusable(least, ttl, |_| 0).unwrap();
        // What stopping needs comes on top.
        assert!(refuse_unusable(least, ttl, |hold| hold / 4).is_err());
        let (longer, ttl) = ms(2_700);
        refuse_unusable(longer, ttl, |hold| hold / 4).unwrap();
        refuse_unusable(None, ttl, |_| u64::MAX).unwrap();
    }
}
