use std::{fmt, num::NonZeroU64, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Invalid, Rule, limits};

const SEQUENCE_MASK: u64 = (1 << limits::SEQUENCE_BITS) - 1;

/// The fencing token: an increasing number that travels with every write and is compared by what is written to.
///
/// A `u63`, so that it fits a signed 64-bit column: the [`Epoch`] in the high 20 bits, the [`Sequence`] in the low
/// 43. Order is integer order. Zero is never a token. Gaps are normal and nobody may count on a value.
///
/// People read and type it as `epoch.sequence` ([`Display`](fmt::Display), [`FromStr`]); JSON carries the integer
/// as a decimal **string**, because JSON numbers stop being exact at 2^53 ([`to_decimal`](Self::to_decimal), serde).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

/// The generation of a coordinator's identity; greater after every restore or loss of state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Epoch(u32);

/// The number of a grant inside its epoch, coordinator-wide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Sequence(u64);

impl Epoch {
    /// The first epoch, used by demos and tests only.
    pub const ZERO: Self = Self(0);
    /// The last epoch.
    pub const MAX: Self = Self((1 << limits::EPOCH_BITS) - 1);

    /// Takes the number of an epoch.
    ///
    /// # Errors
    /// When it is above [`Epoch::MAX`].
    pub fn new(number: u32) -> Result<Self, Invalid> {
        if number > Self::MAX.0 {
            let rule = Rule::Range { least: 0, most: Self::MAX.0.into(), found: Some(number.into()), unit: "" };
            return Err(Invalid::new("epoch", rule));
        }
        Ok(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Sequence {
    /// No grant yet.
    pub const ZERO: Self = Self(0);
    /// The first grant of an epoch.
    pub const FIRST: Self = Self(1);
    /// The last number of an epoch.
    pub const MAX: Self = Self(SEQUENCE_MASK);

    /// Takes the number of a grant.
    ///
    /// # Errors
    /// When it is above [`Sequence::MAX`].
    pub fn new(number: u64) -> Result<Self, Invalid> {
        if number > SEQUENCE_MASK {
            let rule = Rule::Range { least: 0, most: SEQUENCE_MASK, found: Some(number), unit: "" };
            return Err(Invalid::new("sequence", rule));
        }
        Ok(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number `by` above this one, or `None` past the end of the epoch.
    #[must_use]
    pub fn checked_add(self, by: u64) -> Option<Self> {
        self.0.checked_add(by).filter(|n| *n <= SEQUENCE_MASK).map(Self)
    }
}

impl Token {
    /// The greatest token there can be.
    pub const MAX: Self = Self(NonZeroU64::new(i64::MAX as u64).expect("i64::MAX is not zero"));

    /// The token of a grant.
    ///
    /// # Errors
    /// When both numbers are zero: 0 is never a token.
    pub fn new(epoch: Epoch, sequence: Sequence) -> Result<Self, Invalid> {
        Self::from_integer(u64::from(epoch.0) << limits::SEQUENCE_BITS | sequence.0)
    }

    /// The least token of this one's epoch; `None` in epoch 0, before which there is nothing.
    #[must_use]
    pub fn begin_of_epoch(self) -> Option<Self> {
        NonZeroU64::new(u64::from(self.epoch().0) << limits::SEQUENCE_BITS).map(Self)
    }

    /// The token that an integer stands for.
    ///
    /// # Errors
    /// When the integer is 0 or above 2^63 - 1.
    pub fn from_integer(integer: u64) -> Result<Self, Invalid> {
        match NonZeroU64::new(integer) {
            Some(number) if integer <= Self::MAX.as_u64() => Ok(Self(number)),
            _ => Err(out_of_range(Some(integer))),
        }
    }

    /// The token stored in a signed 64-bit column.
    ///
    /// # Errors
    /// When the column holds 0 or a negative number.
    pub fn from_column(column: i64) -> Result<Self, Invalid> {
        u64::try_from(column).map_err(|_| out_of_range(None)).and_then(Self::from_integer)
    }

    /// The integer, for a signed 64-bit column.
    #[must_use]
    pub fn as_i64(self) -> i64 {
        self.0.get().cast_signed()
    }

    /// The integer.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        self.0.get()
    }

    /// The generation of the coordinator that issued it.
    #[must_use]
    pub fn epoch(self) -> Epoch {
        Epoch((self.as_u64() >> limits::SEQUENCE_BITS) as u32)
    }

    /// Its number inside the epoch.
    #[must_use]
    pub fn sequence(self) -> Sequence {
        Sequence(self.as_u64() & SEQUENCE_MASK)
    }

    /// The integer in decimal digits, as JSON, text columns and Redis carry it.
    #[must_use]
    pub fn to_decimal(self) -> String {
        self.0.to_string()
    }

    /// Reads the decimal form: digits only, no sign, no leading zero.
    ///
    /// # Errors
    /// When the text has any other form or the number is 0 or above 2^63 - 1; nothing is rounded.
    pub fn from_decimal(text: &str) -> Result<Self, Invalid> {
        digits(text).ok_or_else(malformed)?.map_or_else(|| Err(out_of_range(None)), Self::from_integer)
    }
}

fn malformed() -> Invalid {
    Invalid::form("token", "a decimal string such as \"70506183131139\" or epoch.sequence such as 8016.3")
}

fn out_of_range(found: Option<u64>) -> Invalid {
    Invalid::new("token", Rule::Range { least: 1, most: Token::MAX.as_u64(), found, unit: "" })
}

/// A number in decimal digits without sign or leading zero; the inner `None` when it does not fit 64 bits.
fn digits(text: &str) -> Option<Option<u64>> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok())
}

impl FromStr for Token {
    type Err = Invalid;

    /// Reads `epoch.sequence` or the decimal form.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let Some((epoch, sequence)) = text.split_once('.') else {
            return Self::from_decimal(text);
        };
        let epoch = digits(epoch).ok_or_else(malformed)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
        let sequence = digits(sequence).ok_or_else(malformed)?.unwrap_or(u64::MAX);
        Self::new(Epoch::new(epoch)?, Sequence::new(sequence)?)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.sequence())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&self.0)
        } else {
            serializer.serialize_u64(self.as_u64())
        }
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::from_decimal(&text).map_err(de::Error::custom)
        } else {
            Self::from_integer(u64::deserialize(deserializer)?).map_err(de::Error::custom)
        }
    }
}

macro_rules! number {
    ($name:ident, $integer:ty) => {
        impl TryFrom<$integer> for $name {
            type Error = Invalid;

            fn try_from(number: $integer) -> Result<Self, Invalid> {
                Self::new(number)
            }
        }

        impl From<$name> for $integer {
            fn from(number: $name) -> Self {
                number.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(Epoch, u32);
number!(Sequence, u64);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zero_is_never_a_token() {
        assert!(Token::new(Epoch::ZERO, Sequence::ZERO).is_err());
        assert!(Token::from_decimal("0").is_err());
        assert!("0.0".parse::<Token>().is_err());
        assert!(Token::from_column(0).is_err());
        assert!(Token::from_column(-1).is_err());
    }

    #[test]
    fn only_plain_digits_are_read() {
        for text in ["", "+1", "-1", " 1", "1 ", "1e3", "1.5.2", "01", "0x1", "1.", ".1", "١", "9223372036854775808"] {
            assert!(text.parse::<Token>().is_err(), "{text:?}");
        }
        for json in ["1", "9007199254740993", "1e3", "1.0", "-1", "null", "true"] {
            assert!(serde_json::from_str::<Token>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn digits_beyond_the_exact_range_of_json_numbers_survive() {
        for integer in [(1 << 53) + 1, (1 << 63) - 10, Token::MAX.as_u64()] {
            let token = Token::from_integer(integer).unwrap();
            assert_eq!(serde_json::to_string(&token).unwrap(), format!("\"{integer}\""));
            assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        }
    }

    proptest! {
        #[test]
        fn every_form_round_trips_and_order_is_integer_order(a in 1..=i64::MAX as u64, b in 1..=i64::MAX as u64) {
            let (x, y) = (Token::from_integer(a).unwrap(), Token::from_integer(b).unwrap());
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!((x.epoch(), x.sequence()).cmp(&(y.epoch(), y.sequence())), a.cmp(&b));
            prop_assert_eq!(Token::new(x.epoch(), x.sequence()).unwrap(), x);
            prop_assert_eq!(x.to_string().parse::<Token>().unwrap(), x);
            prop_assert_eq!(Token::from_decimal(&x.to_decimal()).unwrap(), x);
            prop_assert_eq!(Token::from_column(x.as_i64()).unwrap(), x);
            let bytes = postcard::to_stdvec(&x).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Token>(&bytes).unwrap(), x);
        }
    }
}
