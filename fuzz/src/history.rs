use fencepost_testkit::history::{check, read};

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
