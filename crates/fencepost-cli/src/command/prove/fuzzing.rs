//! Doors to what `prove` parses.

use fencepost_testkit::prove::{Answer, NoAnswer};

use super::{ProveArgs, sender, target, target::Service};
use crate::{duration::Typed, failure::Failure};

pub(crate) fn understand(args: &ProveArgs) -> Result<(), Failure> {
    super::Patience::typed(&args.timeout)?;
    target::headers(&args.header)?;
    super::plan(args, &Service::parse(&args.url)?).map(drop)
}

/// What stands in `Host`, and the path.
pub(crate) fn service(url: &str) -> Result<(String, String), Failure> {
    let service = Service::parse(url)?;
    Ok((service.host, service.target.as_str().to_owned()))
}

pub(crate) fn header(typed: &str) -> Option<(String, String)> {
    target::headers(&[typed.to_owned()]).ok()?.pop()
}

/// Whether the late sender, or whoever has started it, takes this line.
pub(crate) fn errand(line: &str) -> bool {
    serde_json::from_str::<sender::Errand>(line).is_ok()
        || serde_json::from_str::<Result<Answer, NoAnswer>>(line).is_ok()
}
