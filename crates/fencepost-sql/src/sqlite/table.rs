/// What a guard has to know of a table. An adapter reads it from the database; nothing here looks anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// The table's name as the schema spells it.
    pub name: String,
    /// Its columns, generated ones included, in their order.
    pub columns: Vec<Column>,
    /// How rows are told apart.
    pub row_id: RowId,
    /// Every unique index: those of `UNIQUE` and `PRIMARY KEY` too, partial ones like whole ones.
    pub unique: Vec<UniqueIndex>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Whether it is computed from other columns.
    pub generated: bool,
    /// The default that `OR REPLACE` puts in the place of NULL: that of a `NOT NULL` column.
    pub replaces_null: Option<String>,
}

/// How the rows of a table are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowId {
    /// A table `WITHOUT ROWID`: by its primary key, which is among the unique indexes.
    None,
    /// By a rowid that no column shows, under the first of its three names that no column has taken.
    Hidden(&'static str),
    /// By a column that is another name of the rowid (`INTEGER PRIMARY KEY`).
    Column(String),
}

/// A unique index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueIndex {
    /// Its name.
    pub name: String,
    /// Its columns, each with its collation.
    pub columns: Vec<(String, String)>,
}

/// Why a table cannot be guarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unguardable {
    /// There is no such table in the main database.
    #[error("there is no table {0:?} in this database")]
    NoSuchTable(String),
    /// It is a view, a virtual table, or one of the database's or Fencepost's own.
    #[error("{0:?} is no ordinary table: guard the tables that its rows are stored in")]
    NotATable(String),
    /// A unique index is on an expression.
    #[error(
        "the unique index {index:?} of {table:?} is on an expression: a row that REPLACE displaces through it cannot be \
         found by its columns; put a generated column in the expression's place"
    )]
    ExpressionIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// A unique index is on a generated column of a table where REPLACE can change what it is generated from.
    #[error(
        "the unique index {index:?} of {table:?} is on a generated column, and OR REPLACE puts defaults into columns \
         declared NOT NULL DEFAULT before it computes it: drop the default or the index"
    )]
    GeneratedIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// Every name of the rowid is taken by a column.
    #[error("{0:?} has columns named rowid, oid and _rowid_: its rows cannot be told apart; rename one")]
    RowIdHidden(String),
}

/// An identifier in double quotes.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text literal.
#[must_use]
pub fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
