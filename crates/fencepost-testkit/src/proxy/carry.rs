//! One client's connection, request by request.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, sink},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::sleep,
};

use super::{
    Fault, Shared,
    message::{Buffer, Head},
};

pub(super) struct Carrier {
    from_client: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    unread: Buffer,
    server: Option<Upstream>,
    held: watch::Receiver<bool>,
}

/// A connection to the server.
struct Upstream {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    unread: Buffer,
}

impl Upstream {
    async fn connect(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Self { reader, writer, unread: Buffer::default() })
    }

    /// The head of the reply. Announcements before it are left out.
    async fn reply(&mut self) -> io::Result<Head> {
        loop {
            let head = self.unread.head(&mut self.reader).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if head.status() != Some(100) {
                return Ok(head);
            }
        }
    }
}

/// Sends a request on a connection of its own and waits for the whole reply.
pub(super) async fn alone(server: SocketAddr, request: &[u8]) -> io::Result<u16> {
    let mut upstream = Upstream::connect(server).await?;
    upstream.writer.write_all(request).await?;
    let head = upstream.reply().await?;
    upstream.unread.body(&mut upstream.reader, &mut sink(), &head).await?;
    head.status().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl Carrier {
    pub(super) fn new(client: TcpStream, held: watch::Receiver<bool>) -> Self {
        let (from_client, to_client) = client.into_split();
        Self { from_client, to_client, unread: Buffer::default(), server: None, held }
    }

    pub(super) async fn run(mut self, shared: &Shared) -> io::Result<()> {
        while let Some(head) = self.unread.head(&mut self.from_client).await? {
            let mut request = head.bytes().to_vec();
            let fault = shared.fault(&head.path());
            self.unread.body(&mut self.from_client, &mut request, &head).await?;
            if !self.carry(shared, &request, head.bytes().len(), fault).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Carries one request; false when the client's connection is to end.
    async fn carry(
        &mut self,
        shared: &Shared,
        request: &[u8],
        head_length: usize,
        fault: Option<Fault>,
    ) -> io::Result<bool> {
        let mut server = match self.server.take() {
            Some(server) => server,
            None => Upstream::connect(shared.server).await?,
        };
        match fault {
            Some(Fault::DropRequest) => return Ok(false),
            Some(Fault::SwallowRequest) => {
                return client_gone(&mut self.from_client, &mut self.unread).await.map(|()| false);
            }
            Some(Fault::CutRequest) => {
                let half = head_length + (request.len() - head_length) / 2;
                server.writer.write_all(&request[..half]).await?;
                server.writer.shutdown().await?;
                return Ok(false);
            }
            Some(Fault::DelayRequest(by)) => sleep(by).await,
            Some(Fault::KeepCopy) => shared.keep(request),
            Some(Fault::DropReply | Fault::RepeatRequest | Fault::DelayReply(_) | Fault::HoldReply) | None => {}
        }
        server.writer.write_all(request).await?;
        let reply = tokio::select! {
            reply = server.reply() => reply?,
            gone = client_gone(&mut self.from_client, &mut self.unread) => return gone.map(|()| false),
        };
        match fault {
            Some(Fault::DropReply) => {
                server.unread.body(&mut server.reader, &mut sink(), &reply).await?;
                return Ok(false);
            }
            Some(Fault::RepeatRequest) => {
                alone(shared.server, request).await?;
            }
            Some(Fault::DelayReply(by)) => sleep(by).await,
            Some(Fault::HoldReply) => {
                // An error means that the proxy is gone, and this with it.
                let _ = self.held.wait_for(|let_go| *let_go).await;
            }
            Some(
                Fault::DropRequest
                | Fault::CutRequest
                | Fault::KeepCopy
                | Fault::DelayRequest(_)
                | Fault::SwallowRequest,
            )
            | None => {}
        }
        self.to_client.write_all(reply.bytes()).await?;
        tokio::select! {
            copied = server.unread.body(&mut server.reader, &mut self.to_client, &reply) => copied?,
            gone = client_gone(&mut self.from_client, &mut self.unread) => return gone.map(|()| false),
        }
        self.server = Some(server);
        Ok(true)
    }
}

/// Resolves when the client has closed its connection. What it sends ahead meanwhile is kept.
async fn client_gone(client: &mut OwnedReadHalf, unread: &mut Buffer) -> io::Result<()> {
    let mut ahead = [0; 4096];
    loop {
        match client.read(&mut ahead).await? {
            0 => return Ok(()),
            length => unread.push(&ahead[..length]),
        }
    }
}
