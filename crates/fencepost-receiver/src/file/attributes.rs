//! A replaced file keeps its rights: whoever could read or write it still can, and nobody else.

use std::{
    fs::{File, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
};

use rustix::{fs::XattrFlags, io::Errno};

use super::{Trouble, place::Place};

const MODE: u32 = 0o7777;
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Gives `file` owner, group, mode, access list and user attributes of the file that it is to replace.
///
/// # Errors
/// When the rights do not suffice: a replacement that belongs to somebody else is no replacement.
pub(crate) fn take_over(place: &Place, file: &File, target: &Metadata) -> Result<(), Trouble> {
    let failed = || Trouble::io("keeping owner and rights of", &place.file);
    let own = file.metadata().map_err(failed())?;
    let uid = (own.uid() != target.uid()).then(|| target.uid());
    let gid = (own.gid() != target.gid()).then(|| target.gid());
    // The owner first: changing it takes set-user-id bits away.
    if uid.is_some() || gid.is_some() {
        fchown(file, uid, gid).map_err(failed())?;
    }
    take_over_attributes(place, file).map_err(failed())?;
    let own = file.metadata().map_err(failed())?;
    if own.mode() & MODE != target.mode() & MODE {
        file.set_permissions(Permissions::from_mode(target.mode() & MODE)).map_err(failed())?;
    }
    Ok(())
}

fn take_over_attributes(place: &Place, file: &File) -> io::Result<()> {
    let mut names = Vec::with_capacity(4096);
    match rustix::fs::listxattr(&place.file, rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP | Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if !name.starts_with(b"user.") && name != ACCESS_LIST.as_bytes() {
            continue;
        }
        let (mut theirs, mut ours) = (Vec::with_capacity(65_536), Vec::with_capacity(65_536));
        rustix::fs::getxattr(&place.file, name, rustix::buffer::spare_capacity(&mut theirs))?;
        let same = rustix::fs::fgetxattr(file, name, rustix::buffer::spare_capacity(&mut ours)).is_ok();
        if !same || theirs != ours {
            rustix::fs::fsetxattr(file, name, &theirs, XattrFlags::empty())?;
        }
    }
    Ok(())
}
