//! Drivers in other languages are written against the published schema, so a change of it has to show as a diff.

#[test]
fn the_published_schema_is_the_one_in_use() {
    assert_eq!(include_str!("golden/sqlite-schema.sql"), fencepost_sql::sqlite::SCHEMA);
}
