//! What a script says, decoded from bytes: few names and few tokens, close to each other and to the edges, so that steps
//! meet.

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, Sequence, SessionId, Token, fence::Operation,
};

/// Steps of one script.
pub(crate) const MOST_STEPS: usize = 40;

/// How many domains there are.
pub(crate) const DOMAINS: usize = 3;

/// One step, by its six bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    /// Its number, from 1 on: what it writes.
    pub(crate) at: i64,
    /// What is done.
    pub(crate) what: u8,
    which: u8,
    number: u8,
    other: u8,
    request: u8,
    /// Two bits for what goes wrong on purpose, the others for a statement.
    pub(crate) how: u8,
    issuer: &'a Issuer,
}

/// The steps of a script.
pub(crate) fn steps<'a>(bytes: &'a [u8], issuer: &'a Issuer) -> impl Iterator<Item = Step<'a>> {
    (1..).zip(bytes.chunks_exact(6).take(MOST_STEPS)).filter_map(move |(at, step)| {
        let [what, which, number, other, request, how] = *step else { return None };
        Some(Step { at, what, which, number, other, request, how, issuer })
    })
}

pub(crate) fn domain(place: usize) -> Domain {
    Domain::new(&format!("d{place}")).expect("a name")
}

impl Step<'_> {
    pub(crate) fn place(&self) -> usize {
        usize::from(self.which % 3)
    }

    pub(crate) fn token(&self) -> Token {
        token(self.number)
    }

    pub(crate) fn other_token(&self) -> Token {
        token(self.other)
    }

    pub(crate) fn statement(&self) -> [u8; 3] {
        [self.how, self.other, self.request]
    }

    /// A grant for one domain, now and then of an issuer whom nobody knows.
    pub(crate) fn grant(&self) -> Grant {
        self.grant_for(self.place(), self.token())
    }

    fn grant_for(&self, place: usize, token: Token) -> Grant {
        let issuer = if self.which & 0x80 == 0 { self.issuer.clone() } else { Issuer::new("another").expect("a name") };
        let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
        Grant { issuer, domain: domain(place), token, lease, session }
    }

    /// Grants for two or three domains, in an order of their own.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let first = self.place();
        let second = (first + 1 + usize::from(self.which / 3 % 2)) % DOMAINS;
        let mut grants = vec![self.grant_for(first, self.token()), self.grant_for(second, self.other_token())];
        if self.which & 0x20 != 0 {
            grants.push(self.grant_for(DOMAINS - first - second, self.token()));
        }
        grants
    }

    /// One of a few ids, each with one of a few requests.
    pub(crate) fn operation(&self) -> Operation {
        let id = OperationId::new(&format!("op-{}", self.request % 4)).expect("a name");
        let operation = Operation::new(id, &[self.request / 4 % 3]);
        match self.request >> 6 {
            0 | 1 => operation,
            2 => operation.born(self.token()),
            _ => operation.born(self.other_token()),
        }
    }

    /// Whether a mutation fails, or a transaction is rolled back.
    pub(crate) fn fails(&self) -> bool {
        self.how & 0xc0 == 0xc0
    }

    /// Whether something that had to be finished is forgotten.
    pub(crate) fn forgets(&self) -> bool {
        self.how & 0xc0 == 0x80
    }

    /// The leases that a coordinator says are live: none, one, or all of them.
    pub(crate) fn live(&self) -> Vec<fencepost_core::fence::LiveLease> {
        let live = |place, token| fencepost_core::fence::LiveLease { domain: domain(place), token };
        match self.request % 3 {
            0 => Vec::new(),
            1 => vec![live(self.place(), self.token())],
            _ => (0..DOMAINS).map(|place| live(place, self.token())).collect(),
        }
    }

    /// The coordinator's next token: a live lease is older, as its snapshot says.
    pub(crate) fn next(&self) -> Token {
        let next = self.other_token();
        self.live().iter().map(|lease| lease.token).max().map_or(next, |held| held.max(next))
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch::new(u32::from(self.request % 4)).expect("an epoch")
    }
}

/// Tokens close to each other and to the edges: of an epoch, of what is known, of what a column holds.
fn token(number: u8) -> Token {
    let epoch = Epoch::new([0, 1, 1, 2][usize::from(number >> 6)]).expect("an epoch");
    let first = Token::new(epoch, Sequence::FIRST).expect("a token").as_i64();
    let last = (i64::from(u32::from(epoch)) << 43) + ((1_i64 << 43) - 1);
    let near = i64::from(number & 0x1f);
    let value = if number & 0x20 == 0 { first + near } else { last - near };
    value.to_string().parse().expect("a token")
}
