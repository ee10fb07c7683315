use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Notice,
    /// The promise is weaker than it looks.
    Warning,
    /// Somebody went around the fence or can, or the receiver accepts nothing.
    Critical,
}

impl Severity {
    /// The name in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that weakens the promise, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable name, snake_case.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The table, trigger or file that it is about.
    pub subject: Option<String>,
    /// What was found.
    pub found: String,
    /// What to do. Whoever shows it knows how the resource was named: `PATH`, `FOLDER` and `TABLE` (the subject) stand for
    /// that.
    pub fix: String,
}

/// What an audit has found, worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// The findings; none means that nothing is known that went around or could.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Takes note of a finding.
    pub fn add(&mut self, code: &'static str, severity: Severity, subject: Option<String>, found: String, fix: &str) {
        self.findings.push(Finding { code, severity, subject, found, fix: fix.to_owned() });
    }

    /// The same findings, the worst ones first; among equals the order stays.
    #[must_use]
    pub fn worst_first(mut self) -> Self {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self
    }
}
