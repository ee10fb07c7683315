/// Methods of the `Coordinator` of `fencepost-coordinator` that hand the call to the coordinator in a field: for one that
/// changes or notes some calls of another, and leaves the rest as it is.
///
/// `pass_on!(driver: acquire, release);` stands in the `impl` among the methods that do something of their own. Whoever
/// uses it depends on `fencepost-coordinator` and `fencepost-core`.
#[macro_export]
macro_rules! pass_on {
    ($field:ident: $($call:ident),+ $(,)?) => { $($crate::pass_on!(@ $field $call);)+ };
    (@ $field:ident open_session) => {
        async fn open_session(
            &self,
            holder: ::fencepost_core::Holder,
            ttl: ::fencepost_core::Ttl,
        ) -> Result<::fencepost_coordinator::Answered<::fencepost_coordinator::Opened>, ::fencepost_coordinator::CallError<::fencepost_core::lease::LimitReached>> {
            self.$field.open_session(holder, ttl).await
        }
    };
    (@ $field:ident heartbeat) => {
        async fn heartbeat(
            &self,
            key: &::fencepost_coordinator::SessionKey,
            claim: ::fencepost_core::lease::Claim,
        ) -> Result<
            ::fencepost_coordinator::Answered<::fencepost_core::lease::Heartbeat>,
            ::fencepost_coordinator::CallError<::fencepost_core::lease::HeartbeatRefusal>,
        > {
            self.$field.heartbeat(key, claim).await
        }
    };
    (@ $field:ident read_session) => {
        async fn read_session(
            &self,
            key: &::fencepost_coordinator::SessionKey,
        ) -> Result<
            ::fencepost_coordinator::Answered<::fencepost_core::lease::SessionView>,
            ::fencepost_coordinator::CallError<::fencepost_core::lease::SessionRefusal>,
        > {
            self.$field.read_session(key).await
        }
    };
    (@ $field:ident end_session) => {
        async fn end_session(
            &self,
            key: &::fencepost_coordinator::SessionKey,
        ) -> Result<(), ::fencepost_coordinator::CallError<::fencepost_core::lease::SessionRefusal>> {
            self.$field.end_session(key).await
        }
    };
    (@ $field:ident acquire) => {
        async fn acquire(
            &self,
            request: ::fencepost_coordinator::AcquireRequest,
        ) -> Result<
            ::fencepost_coordinator::Answered<::fencepost_coordinator::Granted>,
            ::fencepost_coordinator::CallError<Box<::fencepost_core::lease::AcquireRefusal>>,
        > {
            self.$field.acquire(request).await
        }
    };
    (@ $field:ident release) => {
        async fn release(
            &self,
            secret: &::fencepost_core::Secret,
            lease: ::fencepost_core::LeaseId,
            request: ::fencepost_core::RequestId,
        ) -> Result<::fencepost_core::lease::Released, ::fencepost_coordinator::CallError<::fencepost_core::lease::ReleaseRefusal>> {
            self.$field.release(secret, lease, request).await
        }
    };
    (@ $field:ident break_lease) => {
        async fn break_lease(
            &self,
            lease: ::fencepost_core::LeaseId,
            reason: ::fencepost_core::Reason,
        ) -> Result<::fencepost_core::lease::Broken, ::fencepost_coordinator::CallError<::fencepost_core::lease::BreakRefusal>> {
            self.$field.break_lease(lease, reason).await
        }
    };
    (@ $field:ident check) => {
        async fn check(
            &self,
            domain: ::fencepost_core::Domain,
            token: ::fencepost_core::Token,
        ) -> Result<bool, ::fencepost_coordinator::CallError<::fencepost_coordinator::Refused>> {
            self.$field.check(domain, token).await
        }
    };
    (@ $field:ident list) => {
        async fn list(
            &self,
            filter: ::fencepost_core::lease::Filter,
            after: Option<::fencepost_core::Domain>,
            limit: usize,
        ) -> Result<::fencepost_core::lease::Page, ::fencepost_coordinator::CallError<::fencepost_coordinator::Refused>> {
            self.$field.list(filter, after, limit).await
        }
    };
    (@ $field:ident snapshot) => {
        async fn snapshot(
            &self,
            prefix: String,
        ) -> Result<::fencepost_core::lease::LiveSnapshot, ::fencepost_coordinator::CallError<::fencepost_coordinator::Refused>> {
            self.$field.snapshot(prefix).await
        }
    };
}

#[cfg(test)]
mod tests {
    use fencepost_coordinator::{
        AcquireRequest, Coordinator, SessionKey,
        embedded::{Options, testing::MemoryStore},
    };
    use fencepost_core::{
        Domain, Holder, Reason, RequestId, Ttl,
        lease::{Claim, Filter},
    };

    struct Other<C> {
        inner: C,
    }

    /// It is one, so there is a rule for each call.
    impl<C: Coordinator> Coordinator for Other<C> {
        pass_on!(
            inner: open_session, heartbeat, read_session, end_session, acquire, release, break_lease, check, list, snapshot
        );
    }

    #[tokio::test]
    async fn every_call_reaches_the_coordinator_in_the_field() {
        let other = Other { inner: MemoryStore::new().open(Options::default()).unwrap() };
        let domain = Domain::new("d").unwrap();
        let (first, second) = (RequestId::from_bytes([1; 16]), RequestId::from_bytes([2; 16]));
        let opened = other.open_session(Holder::new("h").unwrap(), Ttl::default()).await.unwrap().answer;
        let key = SessionKey { session: opened.session.session, secret: opened.secret };
        let held = other.acquire(AcquireRequest::new(&key, domain.clone(), first)).await.unwrap().answer.acquired;
        other.heartbeat(&key, Claim::Held(vec![held.lease])).await.unwrap();
        assert_eq!(other.read_session(&key).await.unwrap().answer.leases.len(), 1);
        let token = other.snapshot(String::new()).await.unwrap().leases[0].token;
        assert!(other.check(domain.clone(), token).await.unwrap());
        assert_eq!(other.release(&key.secret, held.lease, first).await.unwrap().holds_left, 0);
        let held = other.acquire(AcquireRequest::new(&key, domain.clone(), second)).await.unwrap().answer.acquired;
        assert_eq!(other.list(Filter::Domain(domain), None, 1).await.unwrap().rows.len(), 1);
        other.break_lease(held.lease, Reason::new("test").unwrap()).await.unwrap();
        other.end_session(&key).await.unwrap();
        assert_eq!(other.inner.counts().await.unwrap().sessions, 0);
    }
}
