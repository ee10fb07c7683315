//! `explain`: what is going on, in whole sentences, and what to type next.

mod domain;
mod receiver;
mod token;

use std::ffi::OsString;

use clap::Args;
use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{CallError, Coordinator, Refused};
use fencepost_core::{Domain, Token, lease::LiveSnapshot};
use serde_json::{Map, Value};

use crate::{
    coordinator::{Call, UrlArgs, asking, failed},
    exit::Exit,
    failure::Failure,
    names,
    output::Output,
};

/// Nobody names a domain like this, so a snapshot of it is only its head.
const NO_DOMAIN: &str = "\u{10ffff}\u{10ffff}";

/// Explain in words who has a domain, or what a token is worth
#[derive(Args, Debug)]
#[command(
    override_usage = "fencepost explain [OPTIONS] <DOMAIN>\n       fencepost explain [OPTIONS] --token <TOKEN> [DOMAIN]\n       fencepost explain [OPTIONS] --token <TOKEN> --receiver <RESOURCE> [DOMAIN]",
    after_long_help = "\
With --receiver it says which verdict a write under the token would get there, and why, without writing anything. \
Everything it says may be over when you read it: it decides nothing.

Examples:
  fencepost explain invoices/2026-11
  fencepost explain --token 8016.3
  fencepost explain invoices/2026-11 --token 8016.3 --receiver sqlite:/var/lib/shop.db

With --json: what was looked at, with \"explanation\" and \"next\" as lists of lines."
)]
pub(crate) struct ExplainArgs {
    /// The domain
    #[arg(required_unless_present = "token")]
    domain: Option<OsString>,
    /// A token, as epoch.sequence or decimal
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    token: Option<String>,
    /// Ask this receiver what it would say to a write, as sqlite:PATH or file:PATH
    #[arg(long, value_name = "RESOURCE", requires = "token")]
    receiver: Option<OsString>,
    #[command(flatten)]
    url: UrlArgs,
}

/// What is to be explained, each where it was named.
type Named = (Option<Domain>, Option<Token>, Option<receiver::Asked>);

/// What is to be explained.
pub(crate) fn understand(args: &ExplainArgs) -> Result<Named, Failure> {
    let domain = args.domain.as_deref().map(names::domain).transpose()?;
    let token = args.token.as_deref().map(str::parse::<Token>).transpose()?;
    let receiver = args.receiver.as_deref().map(receiver::Asked::parse).transpose()?;
    Ok((domain, token, receiver))
}

pub(crate) async fn run(args: ExplainArgs, output: Output) -> Result<Exit, Failure> {
    let (domain, token, receiver) = understand(&args)?;
    let _asking = asking(&args.url.url);
    let asking = Asking { coordinator: args.url.connect()?, url: args.url };
    let explained = match (token, domain) {
        (Some(token), domain) => token::explain(&asking, token, domain, receiver).await?,
        (None, Some(domain)) => domain::explain(&asking, &domain).await?,
        (None, None) => {
            return Err(Failure::new(Exit::Usage, "name a domain or a token").then("fencepost help explain"));
        }
    };
    explained.tell(output)?;
    Ok(Exit::Done)
}

/// Where to ask.
struct Asking {
    coordinator: HttpCoordinator,
    url: UrlArgs,
}

impl Asking {
    /// Who the coordinator is and where its tokens stand.
    async fn head(&self) -> Result<LiveSnapshot, CallError<Refused>> {
        self.coordinator.snapshot(NO_DOMAIN.to_owned()).await
    }

    fn failed(&self, error: CallError<Refused>) -> Failure {
        failed(Call::Read, &self.url.url, error)
    }
}

/// What there is to say.
#[derive(Default)]
struct Explained {
    heading: String,
    facts: Map<String, Value>,
    lines: Vec<String>,
    next: Vec<String>,
}

impl Explained {
    fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn then(&mut self, command: impl Into<String>) {
        let command = command.into();
        if !self.next.contains(&command) {
            self.next.push(command);
        }
    }

    fn fact(&mut self, name: &str, value: impl serde::Serialize) {
        let value = serde_json::to_value(value).expect("what the API sends is JSON");
        self.facts.insert(name.to_owned(), value);
    }

    fn tell(mut self, output: Output) -> Result<(), Failure> {
        if output.json {
            self.facts.insert("explanation".to_owned(), self.lines.into());
            self.facts.insert("next".to_owned(), self.next.into());
            return output.json(&self.facts);
        }
        output.line(&output.strong(&self.heading))?;
        for line in &self.lines {
            output.sentence(2, line)?;
        }
        for next in &self.next {
            output.command("next", next)?;
        }
        Ok(())
    }
}

/// What a token is, in words.
fn token_words(token: Token) -> String {
    format!(
        "Token {token} (decimal {}) is number {} of epoch {}: an epoch is one life of the coordinator, and numbers are \
         counted over all its domains, so gaps are normal. Only the order counts: greater is later.",
        token.to_decimal(),
        token.sequence(),
        token.epoch(),
    )
}
