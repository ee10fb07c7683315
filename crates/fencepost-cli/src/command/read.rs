use std::{
    ffi::OsString,
    io::{self, Read, Write as _},
};

use clap::Args;
use fencepost_core::{Grant, fence::Verdict};
use fencepost_receiver::WriteError;
use serde_json::json;

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure, REPORT},
    output::Output,
    path,
    resource::{FileResource, Resource},
    verdict,
};

/// How much is read before it is passed on.
const PIECE_BYTES: usize = 64 * 1024;

/// Copy a guarded file to standard output, raising its fence first
#[derive(Args, Debug)]
#[command(after_long_help = "\
For a read that a write will be based on: no older token changes the file after it. Once the fence is raised (by this, \
or by `fencepost run --advance`), plain reads do as well. A read that nothing is based on needs no token: use `cat`.

  fencepost run report -- sh -c 'fencepost read file:n | ./next | fencepost write file:n'

Exits 81 when the token is stale, and 78 when there is no file yet: the fence is raised all the same.
With --json: {\"verdict\":\"applied\",\"result\":{\"bytes\":…,\"text\":…}}; a file that is not UTF-8 is refused then.")]
pub(crate) struct ReadArgs {
    /// The file, as file:PATH
    resource: OsString,
    /// The grant as one line of JSON [default: FENCEPOST_GRANT]
    #[arg(long, value_name = "JSON")]
    grant: Option<String>,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: ReadArgs) -> Result<(FileResource, Option<Grant>), Failure> {
    let file = match Resource::parse(&args.resource)? {
        Resource::File(file) => file,
        Resource::Sqlite(database) => {
            return Err(Failure::new(Exit::Usage, format!("{} is read by SQL, not by a pipe", database.typed))
                .then(format!("fencepost advance {}; then read with any client", database.typed)));
        }
    };
    Ok((file, verdict::grant(args.grant)?))
}

pub(crate) fn run(args: ReadArgs, output: Output) -> Result<Exit, Failure> {
    let (file, grant) = understand(args)?;
    let resource = Resource::File(file.clone());
    let grant = verdict::presented(&resource, grant, output)?;
    let _reading = file.doing("reading");
    let verdict = file.receiver.read(&grant).map_err(|error| match error {
        WriteError::Invalid(invalid) => invalid.into(),
        WriteError::Mutation(never) => match never {},
        WriteError::Unavailable(cause) => file.unavailable(&cause),
        WriteError::Misused(rule) => Failure::new(Exit::Bug, rule).then(REPORT),
        error @ WriteError::Unknown { .. } => Failure::new(Exit::Unknown, error.to_string()).then(AGAIN),
    })?;
    let content = match verdict {
        Verdict::Applied(content) | Verdict::Replayed(content) => content,
        Verdict::Rejected(rejection) => return verdict::rejected(&resource, &grant, None, &rejection, output),
    };
    let path = file.receiver.path().display();
    let Some(mut content) = content else {
        let what = format!("there is no file at {path} yet; the fence is at {}", grant.token);
        return Err(Failure::new(Exit::Configuration, what).then(format!("fencepost write {}", file.typed)));
    };
    let unreadable = |error: io::Error| {
        Failure::new(path::exit(&error, Exit::CannotWrite), format!("{path} cannot be read: {error}"))
            .detail("what was printed of it, if anything, is not the whole: base no write on it")
            .then("run the same command again; where that fails as well, see what `dmesg` says of the disk")
    };
    if output.json {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            Failure::new(Exit::Usage, format!("{path} is not UTF-8, and JSON has no other text"))
                .then("the same command without --json")
        })?;
        output.json(&json!({"verdict": "applied", "result": {"bytes": text.len(), "text": text}}))?;
        return Ok(Exit::Done);
    }
    copy(&mut content, unreadable, |piece| output.write(|stdout| stdout.write_all(piece)))?;
    Ok(Exit::Done)
}

/// Piece by piece, so that a resource that cannot be read is not taken for an output that cannot be written.
fn copy(
    content: &mut impl Read,
    unreadable: impl FnOnce(io::Error) -> Failure,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match content.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => write(&piece[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file on a disk that is broken behind its first bytes.
    struct Broken(&'static [u8]);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("Input/output error")),
                some => Ok(some),
            }
        }
    }

    /// Mutant: whatever fails while it is copied is told as a failure of the output.
    #[test]
    fn a_resource_that_cannot_be_read_is_not_told_as_an_output_that_cannot_be_written() {
        let mut written = Vec::new();
        let unreadable = |error: io::Error| Failure::new(Exit::CannotWrite, format!("unreadable: {error}")).then("-");
        let take = |piece: &[u8]| {
            written.extend_from_slice(piece);
            Ok(())
        };
        let failure = copy(&mut Broken(b"begun"), unreadable, take).unwrap_err();
        assert_eq!(failure.json()["detail"], "unreadable: Input/output error");
        assert_eq!(written, b"begun");
        let full = |_: &[u8]| Err(Failure::new(Exit::CannotWrite, "full").then("-"));
        assert_eq!(copy(&mut Broken(b"begun"), unreadable, full).unwrap_err().json()["detail"], "full");
    }
}
