//! A wall clock that jumps neither ends a lease nor prolongs it.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use fencepost_client::{HttpCoordinator, Session};
use fencepost_core::{Domain, Holder, Ttl, Wait};
use fencepost_testkit::torture::{Verdict, now_us};

use crate::{
    arena::{Placed, server_runs},
    common::{Server, until},
    rights::{Rights, set_wall_clock},
};

/// Two years: the year in a date is another one, whatever day it is.
const FAR_S: i64 = 2 * 365 * 86_400;
const TTL: Duration = Duration::from_secs(3);

/// Plays it with a server whose wall clock is stepped, and with a client beside it.
pub(crate) fn story(placed: &Placed) -> Verdict {
    let rights = Rights::found(placed);
    let mut verdict = Verdict { skipped: rights.skipped.clone(), ..Verdict::default() };
    if rights.faketime.is_none() {
        return verdict;
    }
    let root = &placed.root;
    set_wall_clock(root, 0);
    let server = Server::with_store_in(&root.join("data"), 0, rights.faked_clock(root));
    server_runs(Some(server.pid()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let coordinator = HttpCoordinator::new(&server.url).unwrap();
    let open = |name: &str| {
        let ttl = Ttl::from_millis(u64::try_from(TTL.as_millis()).unwrap()).unwrap();
        runtime.block_on(Session::open(coordinator.clone(), Holder::new(name).unwrap(), ttl)).unwrap()
    };
    let (first, second) = (open("first"), open("second"));
    let domain = || Domain::new("d").unwrap();
    let lease = runtime.block_on(first.acquire(domain()).into_future()).unwrap();

    // The server sees the jump, or all of this shows nothing.
    let year = year_at(&server.url);
    set_wall_clock(root, FAR_S);
    until("the server's wall clock has jumped", || year_at(&server.url) != year);

    let (began, mut jumps) = (Instant::now(), [3_600, -86_400, FAR_S, 0, -FAR_S].into_iter().cycle());
    while began.elapsed() < TTL * 2 {
        set_wall_clock(root, jumps.next().unwrap());
        verdict.deeds.count("wall clock stepped");
        // bounded: by the line above
        thread::sleep(Duration::from_millis(150));
        if !lease.state().is_held() {
            verdict.broken.push(format!("I8: the lease ended under a jumping wall clock: {:?}", lease.state()));
            return verdict;
        }
    }

    // A holder that has gone: its time is not over sooner, and not later, because the wall clock goes.
    let deadline_us = now_us(0) + u64::try_from(lease.remaining().as_micros()).unwrap();
    lease.leave_to_expire();
    set_wall_clock(root, FAR_S);
    let waiting = second.acquire(domain()).wait(Wait::from_millis(60_000).unwrap());
    let granting = thread::scope(|scope| {
        let stepping = scope.spawn(|| {
            // bounded: the jump backwards has to fall into the wait
            thread::sleep(Duration::from_millis(500));
            set_wall_clock(root, -FAR_S);
        });
        let granted = runtime.block_on(waiting.into_future());
        stepping.join().unwrap();
        granted
    });
    match granting {
        Ok(lease) if now_us(0) < deadline_us => {
            verdict.broken.push(format!("I8: {} was granted before the first holder's deadline", lease.token()));
        }
        Ok(_) => verdict.notes.count("granted after the first holder's deadline"),
        Err(error) => verdict.broken.push(format!("I8: a lease that nobody renews did not end: {error}")),
    }
    verdict
}

/// The year in the date that the server puts over its answers.
fn year_at(url: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let date = answer.lines().find_map(|line| line.strip_prefix("date: ")).expect("an answer has a date");
    date.split(' ').nth(3).expect("a date has a year").to_owned()
}
