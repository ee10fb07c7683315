use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
};

use fencepost_core::fence::{Closure, Condition};

use super::{
    FileReceiver, MaintenanceError, Trouble,
    held::{Entrance, Held},
    maintenance::fix,
    place::Place,
    staged::content_of,
};
use crate::{Audit, Severity};

const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// File systems whose locks reach other machines late, weakly or not at all.
const SHARED_FILE_SYSTEMS: [(u64, &str); 5] =
    [(0x6969, "NFS"), (0x517b, "SMB"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB 2"), (0x0102_1997, "9P")];
const TMPFS: u64 = 0x0102_1994;

impl FileReceiver {
    /// Lists what went around the fence and what could. It waits for the lock, reads the whole file, and changes nothing
    /// but a write that somebody left pending.
    ///
    /// What cannot be seen: a write that left the same bytes, and files that were removed together with all files beside
    /// them.
    ///
    /// # Errors
    /// When the file or the files beside it cannot be read. A closed or missing receiver is a finding.
    pub fn audit(&self) -> Result<Audit, MaintenanceError> {
        let place = self.place()?;
        let mut audit = Audit::default();
        match self.enter(&place)? {
            Entrance::Open(held) => content(&place, &held, &mut audit)?,
            Entrance::Closed(Closure::NotGuarded) => {
                let found = "this file has no guard: fenced writes are refused, and plain ones are not noticed".into();
                audit.add("not_guarded", Severity::Critical, None, found, fix(Closure::NotGuarded));
            }
            Entrance::Closed(why) => {
                let found = format!("the receiver is closed and refuses everything: {why}");
                audit.add("closed", Severity::Critical, None, found, fix(why));
            }
        }
        if let Some(metadata) = place.metadata()? {
            rights(&place, &metadata, &mut audit);
        }
        folder(&place, &mut audit)?;
        Ok(audit.worst_first())
    }
}

/// What the file holds against what the last accepted write has left.
fn content(place: &Place, held: &Held, audit: &mut Audit) -> Result<(), Trouble> {
    debug_assert_eq!(held.sidecar.condition(held.lock.identity, 0), Condition::Open);
    let now = content_of(&place.file)?;
    let accepted = held.sidecar.stored;
    if now.map(|now| now.content) == accepted.map(|accepted| accepted.content) {
        return Ok(());
    }
    let found = match (accepted, now) {
        (Some(accepted), Some(now)) => {
            format!("the last accepted write left {} and the file has {}", accepted.content, now.content)
        }
        (Some(accepted), None) => format!("the last accepted write left {} and the file is gone", accepted.content),
        (None, _) => "the file was written and no write was accepted".to_owned(),
    };
    let fix = "find the program that writes it without a token; the next accepted write ends this finding";
    audit.add("changed_outside", Severity::Critical, Some(place.file.display().to_string()), found, fix);
    Ok(())
}

fn rights(place: &Place, metadata: &Metadata, audit: &mut Audit) {
    let subject = || Some(place.file.display().to_string());
    if metadata.nlink() > 1 {
        let found = format!("the file has {} names, and a replacement reaches this one only", metadata.nlink());
        audit.add("hard_linked", Severity::Warning, subject(), found, "remove the other names, or make them copies");
    }
    if metadata.mode() & GROUP_OR_OTHERS_WRITE != 0 {
        let found = format!("mode {:o} lets group or others write it without a token", metadata.mode() & 0o7777);
        audit.add("writable", Severity::Warning, subject(), found, "chmod go-w PATH");
    }
}

fn folder(place: &Place, audit: &mut Audit) -> Result<(), Trouble> {
    let metadata = place.folder_metadata()?;
    let subject = || Some(place.folder.display().to_string());
    if metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0 {
        let found = "everybody can replace the file and its sidecar in this folder".into();
        audit.add("folder_writable", Severity::Warning, subject(), found, "chmod o-w FOLDER");
    }
    let kind = rustix::fs::statfs(&place.folder)
        .map_err(|error| Trouble::io("looking at", &place.folder)(error.into()))?
        .f_type as u64
        & 0xffff_ffff;
    if let Some((_, name)) = SHARED_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == kind) {
        let found = format!("the folder is on {name}, where a lock of one machine may not hold on another");
        audit.add("shared_file_system", Severity::Warning, subject(), found, "keep the file on a local disk");
    }
    if kind == TMPFS {
        let found = "the folder is in memory: file and fence are gone after a restart of the machine".into();
        audit.add("in_memory", Severity::Notice, subject(), found, "keep the file on a disk if that matters");
    }
    let names = fs::read_dir(&place.folder).map_err(Trouble::io("reading", &place.folder))?;
    let left = names.filter_map(Result::ok).filter(|entry| place.is_staged_under_way(&entry.file_name())).count();
    if left > 0 {
        let found = format!("{left} staged contents lie beside the file: being written now, or left by killed writers");
        audit.add("left_behind", Severity::Notice, subject(), found, "remove them when nobody writes");
    }
    Ok(())
}
