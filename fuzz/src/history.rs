use fencepost_testkit::history::{check, read};

pub fn taken() {
    let mut text = concat!(
        r#"{"call":1,"who":"A","do":"write","domain":"d","token":"0.7","operation":"o","value":"97"}"#,
        "\n",
        r#"{"answer":1,"got":"applied"}"#,
        "\n",
        r#"{"call":2,"who":"B","do":"read","domain":"d","token":"0.8"}"#,
        "\n",
        r#"{"answer":2,"got":"value","value":"97"}"#,
        "\n",
    )
    .to_owned();
    let found = |text: &str| check(&read(text.as_bytes()).expect("a history")).violations.len();
    assert_eq!(found(&text), 0, "a history that can be explained");
    text.push_str(concat!(
        r#"{"call":3,"who":"A","do":"write","domain":"d","token":"0.7","value":"98"}"#,
        "\n",
        r#"{"answer":3,"got":"applied"}"#,
        "\n",
    ));
    assert_ne!(found(&text), 0, "a stale write was applied");
}

/// A history as somebody wrote it: it is read or refused with the line's number, and what is read is checked to an end.
pub fn history(bytes: &[u8]) {
    if let Ok(history) = read(bytes) {
        // The checker's time grows with what is concurrent; a short history bounds it.
        if bytes.len() < 4_096 {
            let report = check(&history);
            let _ = report;
        }
    }
}
