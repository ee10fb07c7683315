use std::fs;

use fencepost_core::{Domain, Epoch, Grant, Issuer, LeaseId, SessionId, fence::Verdict};
use fencepost_receiver::{ReceiverSeed, file::FileReceiver};

use crate::decision::folder;

/// Any bytes in the place of a guarded file's sidecar: a write is refused or fails, unless what stands there is a sidecar
/// that accepts its token.
pub fn sidecar(bytes: &[u8]) {
    // A folder of its own: a receiver remembers that it was guarded, and a removed sidecar would close it.
    let folder = folder();
    let path = folder.path().join("f");
    let receiver = FileReceiver::new(&path);
    let issuer = Issuer::new("fuzz").expect("a name");
    let domain = Domain::new("d").expect("a name");
    let seed = ReceiverSeed::new(issuer.clone(), Epoch::ZERO);
    receiver.guard(&domain, Some(&seed)).expect("a new file is guarded");
    fs::write(folder.path().join(".f.fence"), bytes).expect("a sidecar of any bytes");
    let token = "0.7".parse().expect("a token");
    let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
    let grant = Grant { issuer, domain, token, lease, session };
    if matches!(receiver.write(&grant, None, &b"x"[..]), Ok(Verdict::Applied(_))) {
        let status = receiver.status().expect("what accepted a write says how it stands");
        assert!(status.fence >= Some(token), "a write was applied without a raise: {status:?}");
    } else {
        assert!(!path.exists(), "a write that was not applied changed the file");
    }
}
