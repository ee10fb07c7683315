use std::fs;

use fencepost_core::{Domain, Epoch, Grant, Issuer, LeaseId, SessionId, fence::Verdict};
use fencepost_receiver::{ReceiverSeed, file::FileReceiver};

use crate::decision::folder;

/// The sidecar that guarding has made.
pub fn taken() {
    assert!(is_applied(None), "a sidecar as it is written");
}

/// Any bytes in the place of a guarded file's sidecar: a write is refused or fails, unless what stands there is a sidecar
/// that accepts its token.
pub fn sidecar(bytes: &[u8]) {
    is_applied(Some(bytes));
}

fn is_applied(sidecar: Option<&[u8]>) -> bool {
    // A folder of its own: a receiver remembers that it was guarded, and a removed sidecar would close it.
    let folder = folder();
    let path = folder.path().join("f");
    let receiver = FileReceiver::new(&path);
    let issuer = Issuer::new("fuzz").expect("a name");
    let domain = Domain::new("d").expect("a name");
    let seed = ReceiverSeed::new(issuer.clone(), Epoch::ZERO);
    receiver.guard(&domain, Some(&seed)).expect("a new file is guarded");
    if let Some(bytes) = sidecar {
        fs::write(folder.path().join(".f.fence"), bytes).expect("a sidecar of any bytes");
    }
    let token = "0.7".parse().expect("a token");
    let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
    let grant = Grant { issuer, domain, token, lease, session };
    let is_applied = matches!(receiver.write(&grant, None, &b"x"[..]), Ok(Verdict::Applied(_)));
    if is_applied {
        let status = receiver.status().expect("what accepted a write says how it stands");
        assert!(status.fence >= Some(token), "a write was applied without a raise: {status:?}");
    } else {
        assert!(!path.exists(), "a write that was not applied changed the file");
    }
    is_applied
}
