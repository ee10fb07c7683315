use std::{fmt, iter::once};

use fencepost_core::sabotage;

use super::{DomainExpression, RowId, TableShape, Unguardable, UniqueIndex, quoted, quoted_text};

/// What a guard does with a write whose transaction has not entered the row's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It refuses it.
    Enforce,
    /// It counts and notes it, and lets it pass.
    Observe,
}

impl Mode {
    /// The name in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A trigger of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// The statement that makes it, exactly as the schema will show it.
    pub sql: String,
}

/// Which moment of which change a trigger looks at.
#[derive(Clone, Copy)]
enum Moment {
    BeforeInsert,
    AfterInsert,
    BeforeUpdate,
    AfterUpdate,
    BeforeDelete,
}

impl Moment {
    const ALL: [Self; 5] =
        [Self::BeforeInsert, Self::AfterInsert, Self::BeforeUpdate, Self::AfterUpdate, Self::BeforeDelete];

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::BeforeInsert => ("BEFORE", "INSERT"),
            Self::AfterInsert => ("AFTER", "INSERT"),
            Self::BeforeUpdate => ("BEFORE", "UPDATE"),
            Self::AfterUpdate => ("AFTER", "UPDATE"),
            Self::BeforeDelete => ("BEFORE", "DELETE"),
        }
    }
}

/// The triggers that guard a table.
///
/// The checks stand in BEFORE triggers, because a user's own AFTER trigger can leave the statement with
/// `RAISE(IGNORE)` and take later triggers with it while the row stays. They are repeated AFTER, where the row is
/// final: a rowid that was chosen by the database, a default put in the place of NULL, columns that another BEFORE
/// trigger changed. Rows that REPLACE displaces are looked up by rowid and by every unique index, because no DELETE
/// trigger fires for them. A partial unique index is looked up like a whole one, which can refuse a write that it
/// would not have displaced and never lets one pass.
///
/// Before an insert, a rowid that the database is yet to choose shows as -1. So the row with rowid -1 is not looked up
/// then, and inserting a row with rowid -1 is refused when it is there.
///
/// `domain_reads_row_id` says that the expression reads the column that is the rowid. Where the database is to choose
/// it, the domain is not known before the row is there.
///
/// # Errors
/// When the table is of a kind that triggers cannot cover.
pub fn guard_triggers(
    table: &TableShape,
    domain: &DomainExpression,
    domain_reads_row_id: bool,
    mode: Mode,
) -> Result<Vec<Trigger>, Unguardable> {
    coverable(table)?;
    let guard = Guard { table, domain, domain_reads_row_id, mode };
    Ok(Moment::ALL.into_iter().filter_map(|moment| guard.trigger(moment)).collect())
}

fn coverable(table: &TableShape) -> Result<(), Unguardable> {
    let replaces = table.columns.iter().any(|column| column.replaces_null.is_some());
    let generated = |name: &str| table.columns.iter().any(|column| column.generated && column.name == name);
    match table.unique.iter().find(|index| index.columns.iter().any(|(name, _)| generated(name))) {
        Some(index) if replaces => {
            Err(Unguardable::GeneratedIndex { table: table.name.clone(), index: index.name.clone() })
        }
        Some(_) | None => Ok(()),
    }
}

struct Guard<'a> {
    table: &'a TableShape,
    domain: &'a DomainExpression,
    domain_reads_row_id: bool,
    mode: Mode,
}

impl Guard<'_> {
    fn trigger(&self, moment: Moment) -> Option<Trigger> {
        let (when, action) = moment.words();
        // As SQLite compares names: other letters than A to Z are not the same in both cases.
        let name = format!("fencepost_guard_{when}_{action}_{}", self.table.name).to_ascii_lowercase();
        let body = match self.mode {
            Mode::Enforce => {
                let checks = self.refused(moment).join("\n    OR ");
                format!("SELECT RAISE(ABORT, {})\n    WHERE {checks};", self.refusal(action))
            }
            Mode::Observe => self.observation(moment)?,
        };
        let (quoted_name, table) = (quoted(&name), quoted(&self.table.name));
        let sql = format!("CREATE TRIGGER {quoted_name} {when} {action} ON {table}\nBEGIN\n  {body}\nEND");
        Some(Trigger { name, sql })
    }

    /// What is refused: a change for which any of these holds. An update that keeps domain and keys is the common one, so
    /// what cannot have changed is not looked up again: the domain that a row had before was entered, or refused.
    fn refused(&self, moment: Moment) -> Vec<String> {
        let moved =
            || format!("({} IS NOT {} AND {})", self.domain_of("NEW"), self.domain_of("OLD"), self.unentered("NEW"));
        match moment {
            Moment::BeforeInsert => once(self.unentered_unless_chosen()).chain(self.displaced_by_insert()).collect(),
            Moment::AfterInsert => {
                let minus_one = self.row_id_of("NEW").map(|id| format!("{id} = -1"));
                once(self.unentered("NEW")).chain(minus_one).collect()
            }
            Moment::BeforeUpdate => {
                [self.unentered("OLD"), moved()].into_iter().chain(self.displaced_by_update()).collect()
            }
            Moment::AfterUpdate => vec![moved()],
            Moment::BeforeDelete => vec![self.unentered("OLD")],
        }
    }

    /// What is noted, so that one change is noted once: before it happens, but for a row whose domain is known after.
    fn noted(&self, moment: Moment) -> Vec<String> {
        match moment {
            Moment::BeforeInsert if self.domain_comes_late() => self.displaced_by_insert(),
            Moment::AfterInsert if !self.domain_comes_late() => Vec::new(),
            Moment::AfterUpdate => Vec::new(),
            Moment::BeforeInsert | Moment::AfterInsert | Moment::BeforeUpdate | Moment::BeforeDelete => {
                self.refused(moment)
            }
        }
    }

    fn domain_comes_late(&self) -> bool {
        match self.table.row_id {
            RowId::Column(_) => self.domain_reads_row_id,
            RowId::Hidden(_) | RowId::None => false,
        }
    }

    /// The domain that a row of this alias has, as one scalar. The inner query gives the expression the names it was
    /// written with, and a unary plus takes the affinity off, so that a stored row and one about to be stored compare
    /// alike.
    fn domain_of(&self, row: &str) -> String {
        let columns: Vec<String> =
            self.table.columns.iter().map(|c| format!("+{row}.{0} AS {0}", quoted(&c.name))).collect();
        format!("(SELECT ({}) FROM (SELECT {}))", self.domain, columns.join(", "))
    }

    fn unentered(&self, row: &str) -> String {
        let domain = if sabotage::active("other_domain_accepted") {
            "fencepost_e.domain".to_owned()
        } else {
            self.domain_of(row)
        };
        format!(
            "NOT EXISTS (SELECT 1 FROM fencepost_entry AS fencepost_e WHERE fencepost_e.slot > 0 \
             AND fencepost_e.counter = (SELECT counter + 1 FROM fencepost_entry WHERE slot = 0) \
             AND fencepost_e.domain = {domain})"
        )
    }

    /// The check of a row about to be inserted. A rowid that the database will choose shows as -1 until then.
    fn unentered_unless_chosen(&self) -> String {
        let check = self.unentered("NEW");
        match &self.table.row_id {
            RowId::Column(column) if self.domain_reads_row_id => {
                format!("(NEW.{} IS NOT -1 AND {check})", quoted(column))
            }
            RowId::Column(_) | RowId::Hidden(_) | RowId::None => check,
        }
    }

    fn row_id_of(&self, row: &str) -> Option<String> {
        match &self.table.row_id {
            RowId::None => None,
            RowId::Hidden(name) => Some(format!("{row}.{name}")),
            RowId::Column(name) => Some(format!("{row}.{}", quoted(name))),
        }
    }

    fn displaced_by_insert(&self) -> Vec<String> {
        let chosen = |new: &str| format!("{new} IS NOT -1 AND ");
        let by_row_id = self.same_row_id().map(|(new, same)| self.displaced(&format!("{}{same}", chosen(&new))));
        by_row_id
            .into_iter()
            .chain(self.table.unique.iter().map(|index| self.displaced(&self.same_key(index))))
            .collect()
    }

    /// The same for an update, where a key that stays finds the row itself and nothing else.
    fn displaced_by_update(&self) -> Vec<String> {
        let by_row_id = self
            .row_id_of("OLD")
            .zip(self.same_row_id())
            .map(|(old, (new, same))| format!("({new} IS NOT {old} AND {})", self.displaced(&same)));
        let by_index = self.table.unique.iter().map(|index| {
            let changed = |(name, _): &(String, String)| format!("NEW.{0} IS NOT OLD.{0} COLLATE BINARY", quoted(name));
            let changed: Vec<String> = index.columns.iter().map(changed).collect();
            format!("(({}) AND {})", changed.join(" OR "), self.displaced(&self.same_key(index)))
        });
        by_row_id.into_iter().chain(by_index).collect()
    }

    /// A stored row would have to make room for the new one, and its domain was not entered.
    fn displaced(&self, clash: &str) -> String {
        let (table, unentered) = (quoted(&self.table.name), self.unentered("fencepost_row"));
        format!("EXISTS (SELECT 1 FROM {table} AS fencepost_row WHERE {clash} AND {unentered})")
    }

    fn same_row_id(&self) -> Option<(String, String)> {
        let (stored, new) = self.row_id_of("fencepost_row").zip(self.row_id_of("NEW"))?;
        let same = format!("{stored} = {new}");
        Some((new, same))
    }

    fn same_key(&self, index: &UniqueIndex) -> String {
        let terms: Vec<String> = index.columns.iter().map(|(name, collation)| self.same(name, collation)).collect();
        terms.join(" AND ")
    }

    fn same(&self, column: &str, collation: &str) -> String {
        let default = self.table.columns.iter().find(|c| c.name == column).and_then(|c| c.replaces_null.as_deref());
        let new = format!("NEW.{}", quoted(column));
        let new = match default {
            Some(default) => format!("coalesce({new}, ({default}))"),
            None => new,
        };
        format!("fencepost_row.{} = {new} COLLATE {}", quoted(column), quoted(collation))
    }

    /// A literal, because SQLite before 3.47 cannot read a schema in which a message is computed.
    fn refusal(&self, action: &str) -> String {
        quoted_text(&format!(
            "fencepost: {action} on {} refused: its transaction has not entered the domain ({}) of the row, or of a row \
             that it would displace. Acquire a lease on that domain and write through Fencepost under its grant",
            self.table.name, self.domain
        ))
    }

    /// A note of a change that would have been refused. Nothing in it can conflict, because the conflict rule of the
    /// outer statement would decide what becomes of it.
    fn observation(&self, moment: Moment) -> Option<String> {
        let checks = self.noted(moment);
        if checks.is_empty() {
            return None;
        }
        let row = match moment {
            Moment::BeforeInsert | Moment::AfterInsert | Moment::BeforeUpdate | Moment::AfterUpdate => "NEW",
            Moment::BeforeDelete => "OLD",
        };
        Some(format!(
            "INSERT INTO fencepost_observation (name, action, domain, at)\n    SELECT {}, '{}', {}, \
             strftime('%Y-%m-%dT%H:%M:%fZ', 'now')\n    WHERE {};",
            quoted_text(&self.table.name),
            moment.words().1.to_lowercase(),
            self.domain_of(row),
            checks.join("\n    OR "),
        ))
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
