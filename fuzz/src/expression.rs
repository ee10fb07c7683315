use std::cell::RefCell;

use fencepost_rusqlite::DomainExpression;
use rusqlite::Connection;

thread_local! {
    static DATABASE: RefCell<Connection> = RefCell::new({
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch("CREATE TABLE t (a TEXT, b INTEGER, c TEXT)").expect("a table");
        connection
    });
}

pub fn taken() {
    DATABASE.with_borrow(|connection| {
        for text in ["a", "'d/' || a", "CASE WHEN b > 1 THEN 'x)' ELSE upper(\"c\") END"] {
            let expression = DomainExpression::new(text).expect("an expression");
            assert!(connection.prepare(&format!("SELECT 1, ({expression}), 3 FROM t")).is_ok(), "{text}");
        }
    });
}

/// A domain expression that is taken stays inside its parentheses: SQLite reads it as one value, or not at all.
pub fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(expression) = DomainExpression::new(text) else { return };
    DATABASE.with_borrow(|connection| {
        // Whatever stands after the parenthesis is lost to an expression that closes it, comments it out or quotes it.
        let framed = format!("SELECT 1, ({expression}), 3 FROM t");
        if let Ok(statement) = connection.prepare(&framed) {
            assert_eq!(statement.column_count(), 3, "{expression:?} is not one value");
            assert_eq!(statement.parameter_count(), 0, "{expression:?} has parameters");
            assert!(statement.readonly(), "{expression:?} writes");
        }
    });
}
