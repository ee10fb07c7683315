//! Which binary is tortured: the one of the same build as this test, or one that was named by hand.
//!
//! Where cargo or nextest start this test they have just built the binary for it. Whoever starts it otherwise would get what
//! some earlier build has left there, with other features maybe, and a verdict about nobody knows what.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Names the binary for a run that neither cargo nor nextest starts.
const BY_HAND: &str = "FENCEPOST_TORTURE_BINARY";
/// What nextest says of the binary that belongs to this test, wherever it lies by now.
const OF_NEXTEST: &str = "NEXTEST_BIN_EXE_fencepost";
/// Which package cargo and nextest run a test of.
const PACKAGE: &str = "CARGO_MANIFEST_DIR";

fn chosen(by_hand: Option<OsString>, of_nextest: Option<OsString>, package: Option<&OsStr>) -> Option<PathBuf> {
    let of_cargo = || package.filter(|package| *package == env!("CARGO_MANIFEST_DIR")).map(|_| OsString::from(BUILT));
    by_hand.or(of_nextest).or_else(of_cargo).map(PathBuf::from)
}

const BUILT: &str = env!("CARGO_BIN_EXE_fencepost");

/// Gives a run a binary of its own. A build that replaces the one in the target folder meanwhile changes nothing.
pub(crate) fn put_into(folder: &Path) {
    let package = env::var_os(PACKAGE);
    let Some(binary) = chosen(env::var_os(BY_HAND), env::var_os(OF_NEXTEST), package.as_deref()) else {
        panic!(
            "neither cargo nor nextest has started this run, so {BUILT} may be of another build: \
             start it by `cargo xtask torture`, or name the binary in {BY_HAND}"
        );
    };
    let put = |binary: &Path| -> io::Result<()> {
        let binary = binary.canonicalize()?;
        // A link is a moment's work; another file system takes a copy.
        fs::hard_link(&binary, inside(folder)).or_else(|_| fs::copy(&binary, inside(folder)).map(drop))
    };
    put(&binary).unwrap_or_else(|error| panic!("{} cannot be tortured: {error}", binary.display()));
}

/// Where a run has its binary.
pub(crate) fn inside(folder: &Path) -> PathBuf {
    folder.join("fencepost")
}

#[test]
fn a_binary_named_by_hand_comes_first_and_what_merely_lies_there_is_not_taken() {
    let text = |text: &str| Some(OsString::from(text));
    let this = OsStr::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(chosen(text("mine"), text("nextest's"), Some(this)), Some("mine".into()));
    assert_eq!(chosen(None, text("nextest's"), None), Some("nextest's".into()));
    assert_eq!(chosen(None, None, Some(this)), Some(BUILT.into()));
    assert_eq!(chosen(None, None, Some(OsStr::new("/another/package"))), None);
    assert_eq!(chosen(None, None, None), None);
}

/// What this test's program says when it is asked for a run as nothing but a program.
fn asked_without_cargo(by_hand: Option<&str>) -> String {
    let mut run = Command::new(env::current_exe().unwrap());
    run.args(["a_wall_clock_that_jumps_neither_ends_nor_prolongs_a_lease", "--exact", "--nocapture"]);
    for name in [PACKAGE, OF_NEXTEST, BY_HAND] {
        run.env_remove(name);
    }
    run.envs(by_hand.map(|path| (BY_HAND, path)));
    let output = run.output().unwrap();
    assert!(!output.status.success(), "the run went ahead");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Mutant: the binary in the target folder is taken whoever starts the run.
#[test]
fn a_run_that_nobody_has_built_for_is_refused() {
    let said = asked_without_cargo(None);
    assert!(said.contains("may be of another build") && said.contains(BY_HAND), "{said}");
    let said = asked_without_cargo(Some("/nowhere/fencepost"));
    assert!(said.contains("/nowhere/fencepost cannot be tortured"), "{said}");
}
