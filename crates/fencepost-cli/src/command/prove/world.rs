//! The service, the coordinator, the hooks and the stopped process, as one world for the scenarios.

use fencepost_core::{Domain, Epoch, Token};
use fencepost_testkit::prove::{Answer, Begun, Hook, Line, NoAnswer, Request, Trouble, World};

use super::{grants::Grants, hooks::Commands, sender::Stopped};
use crate::failure::Failure;

pub(super) struct RealWorld {
    line: Line,
    grants: Grants,
    commands: Commands,
    domain: Domain,
}

impl RealWorld {
    pub(super) fn open(line: Line, epoch: Epoch, commands: Commands, domain: Domain) -> Result<Self, Failure> {
        Ok(Self { line, grants: Grants::open(epoch)?, commands, domain })
    }

    pub(super) async fn close(&self) {
        self.grants.close().await;
    }
}

impl World for RealWorld {
    type Begun = Begun;
    type Stopped = Stopped;

    async fn send(&self, request: &Request) -> Result<Answer, NoAnswer> {
        self.line.send(request).await
    }

    async fn begin(&self, request: &Request) -> Result<Begun, NoAnswer> {
        self.line.begin(request).await
    }

    async fn finish(&self, begun: Begun) -> Result<Answer, NoAnswer> {
        self.line.finish(begun).await
    }

    async fn grant(&self, domain: &Domain) -> Result<Token, Trouble> {
        self.grants.next(domain).await
    }

    async fn grant_after_expiry(&self, domain: &Domain) -> Result<Token, Trouble> {
        self.grants.after_expiry(domain).await
    }

    async fn next_token(&self) -> Result<Token, Trouble> {
        self.grants.next_token().await
    }

    async fn restart_coordinator(&self) -> Result<(), Trouble> {
        self.grants.restart().await
    }

    async fn hook(&self, hook: Hook, next: Token) -> Result<(), Trouble> {
        self.commands.run(hook, &self.domain, next).await
    }

    async fn stop_before_sending(&self, request: &Request) -> Result<Stopped, Trouble> {
        Stopped::start(&self.line, request).await
    }

    async fn go_on(&self, stopped: Stopped) -> Result<Result<Answer, NoAnswer>, Trouble> {
        stopped.go_on().await
    }
}
