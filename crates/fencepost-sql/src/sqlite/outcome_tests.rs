use super::*;

fn row() -> ReceiverRow {
    ReceiverRow {
        condition: "open".into(),
        issuer: "prod".into(),
        known_epoch: 1,
        floor: None,
        unfenced_floor: Some(4),
        horizon: None,
        fences: 2,
        recovery: vec![7; 16],
        device: 3,
        inode: -9,
        counter: 10,
    }
}

const HERE: Identity = Identity { device: 3, inode: (-9_i64).cast_unsigned() };

fn read(row: &ReceiverRow, records: &DomainRow) -> Option<Standing> {
    standing(row, records, &Domain::new("d").unwrap(), HERE, 10)
}

#[test]
fn a_whole_receiver_is_open() {
    let standing = read(&row(), &DomainRow { fence: Some(8), ..DomainRow::default() }).unwrap();
    assert_eq!(standing.condition, Condition::Open);
    assert_eq!((standing.fence, standing.unfenced_floor), (Token::from_column(8).ok(), Token::from_column(4).ok()));
}

#[test]
fn a_domain_without_a_fence_is_open_only_while_no_fence_is_missing() {
    let found =
        |found| read(&row(), &DomainRow { fences_found: Some(found), ..DomainRow::default() }).unwrap().condition;
    assert_eq!(found(2), Condition::Open);
    assert_eq!(found(1), Condition::Closed(Closure::FenceMissing));
    assert_eq!(found(3), Condition::Closed(Closure::FenceMissing));
}

#[test]
fn a_copy_and_a_file_that_went_back_are_closed() {
    assert_eq!(condition_of(&row(), HERE, 11), Condition::Closed(Closure::WentBack));
    let elsewhere = Identity { inode: 1, ..HERE };
    assert_eq!(condition_of(&row(), elsewhere, 0), Condition::Closed(Closure::OtherIncarnation));
}

#[test]
fn a_closed_receiver_says_why_and_an_unknown_word_counts_as_damage() {
    let closed = |word: &str| condition_of(&ReceiverRow { condition: word.into(), ..row() }, HERE, 0);
    assert_eq!(closed("by_operator"), Condition::Closed(Closure::ByOperator));
    assert_eq!(closed("recovering"), Condition::Closed(Closure::Recovering));
    assert_eq!(closed("opne"), Condition::Closed(Closure::MetadataMissing));
}

#[test]
fn damaged_columns_are_never_read_as_absent_ones() {
    let none = DomainRow::default();
    assert_eq!(read(&ReceiverRow { floor: Some(0), ..row() }, &none), None);
    assert_eq!(read(&ReceiverRow { unfenced_floor: Some(-1), ..row() }, &none), None);
    assert_eq!(read(&ReceiverRow { fences: -1, ..row() }, &DomainRow { fence: Some(8), ..DomainRow::default() }), None);
    assert_eq!(read(&ReceiverRow { known_epoch: 1 << 20, ..row() }, &none), None);
    assert_eq!(read(&ReceiverRow { issuer: String::new(), ..row() }, &none), None);
    assert_eq!(read(&row(), &DomainRow { fence: Some(-5), ..DomainRow::default() }), None);
    assert_eq!(read(&row(), &DomainRow { fingerprint: Some(vec![1; 31]), ..DomainRow::default() }), None);
    let closed = Condition::Closed(Closure::MetadataMissing);
    assert_eq!(condition_of(&ReceiverRow { recovery: vec![1], ..row() }, HERE, 0), closed);
    for counter in [-1, i64::MAX] {
        assert_eq!(condition_of(&ReceiverRow { counter, ..row() }, HERE, 0), closed, "{counter}");
    }
    assert_eq!(condition_of(&ReceiverRow { counter: i64::MAX - 1, ..row() }, HERE, 0), Condition::Open);
}
