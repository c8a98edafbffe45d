//! Values that must not be printed.

use std::fmt;

/// A password, token or key. Prints as `***` in every format; [`Secret::reveal`] is the only way
/// to its content.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Hides `content`.
    pub fn new(content: impl Into<String>) -> Self {
        Self(content.into())
    }

    /// The content, for handing it to the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_secret_never_prints_its_content() {
        let secret = super::Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "*** *** ***");
    }
}
