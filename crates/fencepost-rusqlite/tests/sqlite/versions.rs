//! Whoever is linked with an old SQLite is told, once. The story needs a process that has written nothing yet, so it is told
//! in a child: this test binary again.

use std::{
    env,
    process::{Command, Stdio},
};

use fencepost_rusqlite::SqliteReceiver;

use crate::{
    rejections::Lines,
    support::{Database, add, grant},
};

const CHILD: &str = "FENCEPOST_TEST_VERSION";
const TOLD: &str = "told: ";

/// Two receivers write twice each, and say what was logged meanwhile; in the parent's own run there is nothing to do.
#[test]
fn child() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let database = Database::with_counters();
    let mut connection = database.connect();
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        for receiver in [SqliteReceiver::new(), SqliteReceiver::new()] {
            for _ in 0..2 {
                let verdict = receiver.mutate(&mut connection, &grant("a", "0.8"), add("a", 1)).unwrap();
                assert!(verdict.rejection().is_none());
            }
        }
    });
    lines.0.lock().unwrap().iter().for_each(|line| println!("\n{TOLD}{line}"));
}

fn logged_under(defect: &str) -> Vec<String> {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "versions::child", "--nocapture"])
        .env(CHILD, "1")
        .env("FENCEPOST_SABOTAGE", defect)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output.status);
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().filter_map(|line| line.strip_prefix(TOLD)).map(str::to_owned).collect()
}

/// Mutants: the version is not looked at; it is told at every write.
#[test]
fn an_old_sqlite_is_told_of_once_and_a_sound_one_never() {
    let told = logged_under("old_sqlite");
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].starts_with("fencepost::sqlite message=use SQLite 3.51.3 or later"), "{told:#?}");
    assert!(told[0].contains("it can corrupt a database in WAL mode"), "{told:#?}");
    assert_eq!(logged_under("none"), Vec::<String>::new());
}
