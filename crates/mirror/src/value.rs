//! Values of the types that Kafka's configuration knows (`ConfigDef.parseType`).

/// Why a value is not of the type it must have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ValueError {
    /// Neither `true` nor `false`.
    #[error("must be true or false")]
    NotABoolean,
    /// Not a number, or none that the type can hold.
    #[error("is not a whole number from {min} to {max}")]
    NotANumber {
        /// The smallest number of the type.
        min: i64,
        /// The largest number of the type.
        max: i64,
    },
    /// Not a decimal number.
    #[error("is not a number")]
    NotADecimal,
}

/// A BOOLEAN: `true` or `false` in any case, blanks around it ignored.
pub fn parse_bool(text: &str) -> Result<bool, ValueError> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(ValueError::NotABoolean)
    }
}

/// What `Boolean.parseBoolean` makes of a switch: `true` in any case without blanks around it, and
/// false for everything else.
pub(crate) fn is_lenient_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// An INT.
pub fn parse_int(text: &str) -> Result<i32, ValueError> {
    parse_number(text, i32::MIN.into(), i32::MAX.into()).map(|number| number as i32)
}

/// A LONG.
pub fn parse_long(text: &str) -> Result<i64, ValueError> {
    parse_number(text, i64::MIN, i64::MAX)
}

/// A SHORT.
pub fn parse_short(text: &str) -> Result<i16, ValueError> {
    parse_number(text, i16::MIN.into(), i16::MAX.into()).map(|number| number as i16)
}

fn parse_number(text: &str, min: i64, max: i64) -> Result<i64, ValueError> {
    let number = text.trim().parse::<i64>().ok();
    number.filter(|number| (min..=max).contains(number)).ok_or(ValueError::NotANumber { min, max })
}

/// A DOUBLE.
pub fn parse_double(text: &str) -> Result<f64, ValueError> {
    let text = text.trim();
    // Rust also reads `inf`, which Java calls `Infinity`; neither is a sensible setting.
    let number = text.parse::<f64>().map_err(|_| ValueError::NotADecimal)?;
    if number.is_finite() { Ok(number) } else { Err(ValueError::NotADecimal) }
}

/// A LIST: items between commas, blanks around them ignored. Empty items are kept, so that they
/// can be refused where they are not allowed; a blank text is the empty list.
pub fn parse_list(text: &str) -> Vec<String> {
    let text = text.trim();
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|item| item.trim().to_owned()).collect()
}
