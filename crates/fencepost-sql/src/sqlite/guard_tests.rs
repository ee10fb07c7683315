use super::super::Column;
use super::*;

fn column(name: &str) -> Column {
    Column { name: name.into(), generated: false, replaces_null: None }
}

fn table() -> TableShape {
    TableShape {
        name: "it's".into(),
        columns: vec![column("id"), column("na\"me")],
        row_id: RowId::Column("id".into()),
        unique: vec![UniqueIndex { name: "u".into(), columns: vec![("na\"me".into(), "NOCASE".into())] }],
    }
}

fn triggers(table: &TableShape, expression: &str, reads_row_id: bool, mode: Mode) -> Vec<Trigger> {
    guard_triggers(table, &DomainExpression::new(expression).unwrap(), reads_row_id, mode).unwrap()
}

#[test]
fn names_are_quoted_wherever_they_stand() {
    let all = triggers(&table(), "'jobs'", false, Mode::Enforce);
    assert_eq!(all.len(), 5);
    assert_eq!(all[0].name, "fencepost_guard_before_insert_it's");
    assert!(all[0].sql.contains("ON \"it's\"\n"), "{}", all[0].sql);
    assert!(all[0].sql.contains("fencepost_row.\"na\"\"me\" = NEW.\"na\"\"me\" COLLATE \"NOCASE\""), "{}", all[0].sql);
    assert!(all[0].sql.contains("'fencepost: INSERT on it''s refused"), "{}", all[0].sql);
    assert!(all[0].sql.contains("(''jobs'')"), "{}", all[0].sql);
}

#[test]
fn displaced_rows_are_looked_up_by_rowid_and_by_every_unique_index() {
    let all = triggers(&table(), "'jobs'", false, Mode::Enforce);
    let lookups = |trigger: &Trigger| trigger.sql.matches("AS fencepost_row WHERE").count();
    assert_eq!(all.iter().map(lookups).collect::<Vec<_>>(), [2, 0, 2, 0, 0]);
    let without = TableShape { row_id: RowId::None, ..table() };
    assert_eq!(lookups(&triggers(&without, "'jobs'", false, Mode::Enforce)[0]), 1);
    let hidden = TableShape { row_id: RowId::Hidden("oid"), ..table() };
    assert!(triggers(&hidden, "'jobs'", false, Mode::Enforce)[0].sql.contains("fencepost_row.oid = NEW.oid"));
}

#[test]
fn a_domain_made_of_a_rowid_that_is_yet_to_be_chosen_is_checked_when_it_is() {
    let all = triggers(&table(), "'doc/' || id", true, Mode::Enforce);
    assert!(all[0].sql.contains("NEW.\"id\" IS NOT -1 AND NOT EXISTS"));
    assert!(!all[1].sql.contains("IS NOT -1"));
}

#[test]
fn a_default_that_replaces_null_is_what_the_lookup_looks_for() {
    let mut table = table();
    table.columns[1].replaces_null = Some("'x'".into());
    let all = triggers(&table, "'jobs'", false, Mode::Enforce);
    assert!(all[0].sql.contains("= coalesce(NEW.\"na\"\"me\", ('x')) COLLATE"), "{}", all[0].sql);
    table.columns.push(Column { name: "g".into(), generated: true, replaces_null: None });
    table.unique.push(UniqueIndex { name: "on_g".into(), columns: vec![("g".into(), "BINARY".into())] });
    let refused = guard_triggers(&table, &DomainExpression::new("'jobs'").unwrap(), false, Mode::Enforce).unwrap_err();
    assert_eq!(refused, Unguardable::GeneratedIndex { table: "it's".into(), index: "on_g".into() });
}

#[test]
fn observing_notes_and_never_raises() {
    for trigger in triggers(&table(), "'jobs'", false, Mode::Observe) {
        assert!(!trigger.sql.contains("RAISE"), "{}", trigger.sql);
        assert!(trigger.sql.contains("INSERT INTO fencepost_observation"), "{}", trigger.sql);
    }
}
