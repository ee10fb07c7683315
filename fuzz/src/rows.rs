use fencepost_core::{Domain, Token, fence::Condition};
use fencepost_sql::sqlite::{DomainRow, Identity, ReceiverRow, standing};

pub fn taken() {
    let row = ReceiverRow {
        condition: "open".into(),
        issuer: "fuzz".into(),
        known_epoch: 1,
        floor: Some(3),
        unfenced_floor: Some(4),
        horizon: Some(5),
        fences: 2,
        recovery: vec![7; 16],
        device: 0,
        inode: 0,
        counter: 10,
    };
    let records = DomainRow { fence: Some(8), fences_found: None, fingerprint: Some(vec![7; 32]) };
    let found = standing(&row, &records, &Domain::new("d").expect("a name"), Identity::MEMORY, 10).expect("a standing");
    assert_eq!(found.condition, Condition::Open);
    let columns = [found.floor, found.unfenced_floor, found.horizon, found.fence].map(|token| token.map(Token::as_i64));
    assert_eq!(columns, [3, 4, 5, 8].map(Some));
    assert!(found.recorded.is_some());
}

/// What a damaged database may hold in the place of a receiver's row and a domain's: it closes the receiver, or is a
/// standing that this receiver can have.
pub fn rows(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let row = ReceiverRow {
        condition: text(&mut bytes, &["open", "by_operator", "recovering", ""]),
        issuer: text(&mut bytes, &["fuzz", "", "a\u{7f}", "another"]),
        known_epoch: number(&mut bytes),
        floor: optional(&mut bytes),
        unfenced_floor: optional(&mut bytes),
        horizon: optional(&mut bytes),
        fences: number(&mut bytes),
        recovery: vec![7; usize::from(bytes.next().unwrap_or(16) % 20)],
        device: number(&mut bytes),
        inode: number(&mut bytes),
        counter: number(&mut bytes),
    };
    let records = DomainRow {
        fence: optional(&mut bytes),
        fences_found: optional(&mut bytes),
        fingerprint: bytes.next().map(|length| vec![length; usize::from(length % 40)]),
    };
    let domain = Domain::new("d").expect("a name");
    let seen = u64::from(bytes.next().unwrap_or_default());
    let Some(found) = standing(&row, &records, &domain, Identity::MEMORY, seen) else { return };
    for (token, column) in [
        (found.floor, row.floor),
        (found.unfenced_floor, row.unfenced_floor),
        (found.horizon, row.horizon),
        (found.fence, records.fence),
    ] {
        assert_eq!(token.map(|token| token.as_i64()), column);
        assert!(token.is_none_or(|token| token.as_i64() > 0), "token 0");
    }
    assert_eq!(
        (found.issuer.as_str(), i64::from(u32::from(found.known_epoch))),
        (row.issuer.as_str(), row.known_epoch)
    );
    assert_eq!(found.domain, domain);
}

fn text(bytes: &mut impl Iterator<Item = u8>, known: &[&str]) -> String {
    let choice = usize::from(bytes.next().unwrap_or_default());
    match known.get(choice) {
        Some(known) => (*known).to_owned(),
        None => String::from_utf8_lossy(&bytes.by_ref().take(choice % 8).collect::<Vec<_>>()).into_owned(),
    }
}

fn optional(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    (bytes.next()? % 4 != 0).then(|| number(bytes))
}

/// Small numbers, and any at all.
fn number(bytes: &mut impl Iterator<Item = u8>) -> i64 {
    match bytes.next().unwrap_or_default() {
        255 => {
            let mut all = [0; 8];
            all.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
            i64::from_le_bytes(all)
        }
        small => i64::from(small.cast_signed()),
    }
}
