//! Fenced replacement of a file beside the same write, fsync and rename without a fence.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use anyhow::{Result, ensure};
use fencepost_core::{Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId, fence::Verdict};
use fencepost_receiver::{ReceiverSeed, file::FileReceiver};
use sha2::{Digest, Sha256};

use crate::{
    report::{Table, micros, rate, ratio},
    round::{Contestant, Plan, compete, repeat},
};

const BYTES: usize = 1 << 20;

/// What a careful program does without a fence.
fn replace(path: &Path, content: &[u8], sync_folder: bool) -> Result<()> {
    let staged = path.with_extension("new");
    let mut file = File::create(&staged)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&staged, path)?;
    if let Some(folder) = path.parent().filter(|_| sync_folder) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

pub(crate) fn measure(plan: Plan) -> Result<Table> {
    let dir = tempfile::Builder::new().prefix("fencepost-bench-").tempdir_in(".")?;
    let (issuer, domain) = (Issuer::new("bench")?, Domain::new("file")?);
    let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
    let guarded = |name: &str| -> Result<FileReceiver> {
        let receiver = FileReceiver::new(dir.path().join(name));
        receiver.guard(&domain, Some(&ReceiverSeed::new(issuer.clone(), Epoch::ZERO)))?;
        Ok(receiver)
    };
    let (without, with) = (guarded("without")?, guarded("with")?);
    let (plain, synced) = (dir.path().join("plain"), dir.path().join("synced"));
    let grant = Grant { issuer: issuer.clone(), domain: domain.clone(), token: "0.7".parse()?, lease, session };
    let grant = &grant;
    let content: &[u8] = &(0..BYTES).map(|n| (n % 251) as u8).collect::<Vec<_>>();
    let mut next = 0_u64;
    let contestants = vec![
        Contestant::new("write, fsync, rename", move |turn| repeat(turn, || replace(&plain, content, false))),
        Contestant::new("the same and fsync of the folder", move |turn| {
            repeat(turn, || replace(&synced, content, true))
        }),
        Contestant::new("SHA-256 alone", move |turn| {
            repeat(turn, || {
                ensure!(Sha256::digest(content)[0] != 0 || !content.is_empty());
                Ok(())
            })
        }),
        Contestant::new("fenced write", move |turn| {
            repeat(turn, || {
                let verdict = without.write(grant, None, content)?;
                ensure!(matches!(verdict, Verdict::Applied(_)), "a fenced write was not applied");
                Ok(())
            })
        }),
        Contestant::new("fenced write with operation record", move |turn| {
            repeat(turn, || {
                next += 1;
                let staged = with.stage(content)?;
                let operation = staged.operation(OperationId::new(&format!("operation-{next}"))?);
                let verdict = with.write_staged(grant, Some(&operation), staged)?;
                ensure!(matches!(verdict, Verdict::Applied(_)), "a fenced write was not applied");
                Ok(())
            })
        }),
    ];
    let scores = compete(plan, contestants)?;
    let mut table =
        Table::new("A file of 1 MiB, durable", &["", "a second", "time, as a multiple of the first", "median, us"]);
    for score in &scores {
        let over = ratio(score.time_over(&scores[0]));
        table.row([score.name.clone(), rate(score.rate()), over, micros(score.median_us())]);
    }
    table.note(
        "One writer. A fenced write also syncs its sidecar and, twice, the folder; 100 operation records are kept.",
    );
    Ok(table)
}
