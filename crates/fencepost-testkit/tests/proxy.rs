//! The proxy breaks what it is told to break, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use fencepost_testkit::proxy::{Fault, Proxy, Rule};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Answers every request with its number, by length or, for `/chunked`, in chunks; never answers `/wait`.
struct Counting {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    gone: Arc<AtomicUsize>,
}

async fn counting() -> Counting {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (requests.clone(), gone.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, counts.clone()));
        }
    });
    Counting { address, requests, gone }
}

async fn answer(mut stream: TcpStream, (requests, gone): (Arc<AtomicUsize>, Arc<AtomicUsize>)) {
    let mut read = Vec::new();
    loop {
        // Every request here has the body `body`.
        while !read.windows(8).any(|window| window == b"\r\n\r\nbody") {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                gone.fetch_add(1, SeqCst);
                return;
            }
        }
        let text = String::from_utf8(std::mem::take(&mut read)).unwrap();
        let number = requests.fetch_add(1, SeqCst) + 1;
        let answer = if text.starts_with("POST /wait") {
            continue;
        } else if text.starts_with("POST /chunked") {
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n1\r\n{number}\r\n0\r\n\r\n")
        } else {
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{number}", number.to_string().len())
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

async fn send(client: &mut TcpStream, path: &str) {
    let request = format!("POST {path} HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody");
    client.write_all(request.as_bytes()).await.unwrap();
}

/// What comes until the answer is whole; what there is when the connection ends before.
async fn answered(client: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let reading = async {
        loop {
            let text = String::from_utf8_lossy(&read);
            let whole = match text.split_once("\r\n\r\n") {
                Some((head, body)) if head.contains("chunked") => body.ends_with("0\r\n\r\n"),
                Some((_, body)) => !body.is_empty(),
                None => false,
            };
            if whole || client.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("something happens in time");
    String::from_utf8(read).unwrap()
}

async fn through(proxy: &Proxy, path: &str) -> String {
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    send(&mut client, path).await;
    answered(&mut client).await
}

#[tokio::test]
async fn what_no_rule_names_passes_untouched() {
    let server = counting().await;
    let proxy = Proxy::start(server.address, vec![Rule::on("/other", 1, Fault::DropReply)]).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    for number in 1..=3 {
        send(&mut client, "/kept-alive?query=1").await;
        assert_eq!(answered(&mut client).await, format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}"));
    }
    assert!(through(&proxy, "/chunked").await.ends_with("2\r\nno\r\n1\r\n4\r\n0\r\n\r\n"));
    assert_eq!((proxy.seen("/kept-alive"), proxy.seen("/other")), (3, 0));
}

#[tokio::test]
async fn each_fault_is_what_it_says() {
    let server = counting().await;
    let faults = [
        (Fault::DropReply, 1),
        (Fault::DropRequest, 0),
        (Fault::CutRequest, 0),
        (Fault::RepeatRequest, 2),
        (Fault::KeepCopy, 1),
        (Fault::DelayRequest(Duration::from_millis(5)), 1),
        (Fault::DelayReply(Duration::from_millis(5)), 1),
    ];
    for (fault, reached) in faults {
        let before = server.requests.load(SeqCst);
        let proxy = Proxy::start(server.address, vec![Rule::on("/x", 2, fault)]).await.unwrap();
        assert!(!through(&proxy, "/x").await.is_empty(), "{fault:?}: the first request is not meant");
        let second = through(&proxy, "/x").await;
        let lost = matches!(fault, Fault::DropReply | Fault::DropRequest | Fault::CutRequest);
        assert_eq!(second.is_empty(), lost, "{fault:?}: {second}");
        assert_eq!(server.requests.load(SeqCst) - before, 1 + reached, "{fault:?}");
        assert!(!through(&proxy, "/x").await.is_empty(), "{fault:?}: the third request is not meant");
        let copies = proxy.deliver_copies().await.unwrap();
        assert_eq!(copies.len(), usize::from(fault == Fault::KeepCopy), "{fault:?}");
    }
}

#[tokio::test]
async fn a_held_answer_comes_when_it_is_let_go() {
    let server = counting().await;
    let proxy = Proxy::start(server.address, vec![Rule::on("/x", 1, Fault::HoldReply)]).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    send(&mut client, "/x").await;
    until(&server.requests, 1).await;
    assert!(timeout(Duration::from_millis(30), client.readable()).await.is_err(), "the answer is held");
    proxy.let_go();
    assert!(answered(&mut client).await.ends_with('1'));
}

#[tokio::test]
async fn a_client_that_goes_away_is_gone_for_the_server_too() {
    let server = counting().await;
    let proxy = Proxy::start(server.address, Vec::new()).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    send(&mut client, "/wait").await;
    until(&server.requests, 1).await;
    drop(client);
    until(&server.gone, 1).await;

    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    send(&mut client, "/wait").await;
    until(&server.requests, 2).await;
    proxy.cut();
    until(&server.gone, 2).await;
    assert_eq!(answered(&mut client).await, "");
    assert!(!through(&proxy, "/x").await.is_empty(), "new connections are carried");
}

async fn until(count: &AtomicUsize, number: usize) {
    let counting = async {
        while count.load(SeqCst) < number {
            // bounded: the surrounding timeout ends it
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, counting).await.expect("it happens in time");
}
