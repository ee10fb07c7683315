//! What `run` and its warden tell each other, and what the first process tells the warden: one line each over a pair of
//! sockets that nobody else has.
//!
//! The end of the connection is a message too: the other process is gone, however it went.

use std::{
    fmt,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream as Socket,
    },
    str::FromStr,
};

use fencepost_core::{Moment, sabotage};
use rustix::{
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        recvmsg, sendmsg, sockopt::set_socket_send_buffer_size,
    },
    process::Pid,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::plan::Why;

/// What `run` tells the warden. The first thing is a start, or there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The leases are held: start the command.
    Start(Start),
    /// The leases may be believed in until then.
    Until(Moment),
    /// A signal for the command.
    Forward(i32),
    /// The lease is lost: stop the command.
    Stop,
}

/// What a command is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// For the warden: until when the leases may be believed in. At the gate: from when on it is too late to start.
    pub(crate) until: Moment,
    /// What the command finds in its environment, beside what `run` found.
    pub(crate) variables: Vec<(String, String)>,
}

/// What the warden tells `run`. It says what it is about to do before it does it, so that its silence says that it has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The gate is opened next: from here on this process may be the command.
    Opening(u32),
    /// It is the command.
    Started,
    /// There is no command, and there will be none.
    None(NoCommand),
    /// That process has ended; members of the command may still live.
    Ended(End),
    /// No member lives any more. Why they were ended, or would have been.
    Gone(Why),
}

/// Why a command was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoCommand {
    /// Too little of the lease was left.
    TooLate,
    /// The system has no processes for it.
    System(String),
    /// It cannot be run: 126 or 127, and what the system says.
    Unusable { code: u8, why: String },
}

/// What the first process tells the warden once its gate is open. After that, the end of the connection says that it is
/// something else now, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It becomes the command next.
    Becoming,
    /// It does not.
    Not(NoCommand),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(u8),
    Killed(u8),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // JSON has no line ends of its own.
            Self::Start(start) => {
                write!(f, "start {}", serde_json::to_string(start).expect("numbers and strings are JSON"))
            }
            Self::Until(moment) => write!(f, "until {}", moment.as_millis()),
            Self::Forward(signal) => write!(f, "forward {signal}"),
            Self::Stop => f.write_str("stop"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opening(pid) => write!(f, "opening {pid}"),
            Self::Started => f.write_str("started"),
            Self::None(none) => none.fmt(f),
            Self::Ended(End::Exited(code)) => write!(f, "exited {code}"),
            Self::Ended(End::Killed(signal)) => write!(f, "killed {signal}"),
            Self::Gone(why) => write!(f, "gone {}", why.as_str()),
        }
    }
}

impl fmt::Display for NoCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| text.replace(['\n', '\r'], " ");
        match self {
            Self::TooLate => f.write_str("too-late"),
            Self::System(why) => write!(f, "not-started {}", line(why)),
            Self::Unusable { code, why } => write!(f, "unusable {code} {}", line(why)),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Becoming => f.write_str("becoming"),
            Self::Not(none) => none.fmt(f),
        }
    }
}

/// A line that the other side never sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Garbled(String);

impl From<Garbled> for io::Error {
    fn from(garbled: Garbled) -> Self {
        Self::new(io::ErrorKind::InvalidData, format!("between run and its warden: {:?}", garbled.0))
    }
}

fn parts(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

impl FromStr for Order {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        let garbled = || Garbled(line.to_owned());
        match parts(line) {
            ("start", start) => serde_json::from_str(start).map(Self::Start).map_err(|_| garbled()),
            ("until", ms) => ms.parse().map(|ms| Self::Until(Moment::from_millis(ms))).map_err(|_| garbled()),
            ("forward", signal) => signal.parse().map(Self::Forward).map_err(|_| garbled()),
            ("stop", "") => Ok(Self::Stop),
            _ => Err(garbled()),
        }
    }
}

impl FromStr for Report {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        let garbled = || Garbled(line.to_owned());
        match parts(line) {
            ("opening", pid) => pid.parse().map(Self::Opening).map_err(|_| garbled()),
            ("started", "") => Ok(Self::Started),
            ("exited", code) => code.parse().map(|code| Self::Ended(End::Exited(code))).map_err(|_| garbled()),
            ("killed", signal) => signal.parse().map(|signal| Self::Ended(End::Killed(signal))).map_err(|_| garbled()),
            ("gone", why) => Why::parse(why).map(Self::Gone).ok_or_else(garbled),
            _ => line.parse().map(Self::None),
        }
    }
}

impl FromStr for NoCommand {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        let garbled = || Garbled(line.to_owned());
        match parts(line) {
            ("too-late", "") => Ok(Self::TooLate),
            ("not-started", why) => Ok(Self::System(why.to_owned())),
            ("unusable", rest) => {
                let (code, why) = parts(rest);
                code.parse().map(|code| Self::Unusable { code, why: why.to_owned() }).map_err(|_| garbled())
            }
            _ => Err(garbled()),
        }
    }
}

impl FromStr for Said {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        if line == "becoming" { Ok(Self::Becoming) } else { line.parse().map(Self::Not) }
    }
}

/// That `run` was told: should the warden be killed from here on, nobody may say that nothing was started.
#[derive(Debug)]
pub(crate) struct Announced(());

/// One end.
#[derive(Debug)]
pub(crate) struct Link {
    reader: BufReader<OwnedReadHalf>,
    /// As much of the next message as has come.
    come: Vec<u8>,
    writer: OwnedWriteHalf,
}

impl Link {
    /// # Errors
    /// When the runtime cannot watch it.
    pub(crate) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(socket)?.into_split();
        Ok(Self { reader: BufReader::new(reader), come: Vec::new(), writer })
    }

    /// # Errors
    /// When the other side is gone.
    pub(crate) async fn say(&mut self, message: impl fmt::Display) -> io::Result<()> {
        self.writer.write_all(format!("{message}\n").as_bytes()).await
    }

    /// Says that the gate is opened next.
    ///
    /// # Errors
    /// When the other side is gone.
    pub(crate) async fn announce(&mut self, first: Pid) -> io::Result<Announced> {
        self.say(Report::Opening(first.as_raw_nonzero().get().unsigned_abs())).await?;
        Ok(Announced(()))
    }

    /// Tells the other side that nothing more comes.
    pub(crate) async fn hang_up(&mut self) {
        // Whoever is gone needs not to be told.
        let _ = self.writer.shutdown().await;
    }

    /// The next message; `None` when the other side is gone. What it had said half of by then is none: `forward 1` may have
    /// been going to be `forward 15`. Safe to drop and to call again.
    ///
    /// # Errors
    /// When what came is no message.
    pub(crate) async fn hear<T: FromStr<Err = Garbled>>(&mut self) -> io::Result<Option<T>> {
        // A reset says no more than an end.
        let _ = self.reader.read_until(b'\n', &mut self.come).await;
        let Some(line) = self.come.strip_suffix(b"\n") else { return Ok(None) };
        let message = String::from_utf8_lossy(line).parse()?;
        self.come.clear();
        Ok(Some(message))
    }
}

/// The longest start: every byte of the longest variable may stand for two.
const START_BYTES: usize = 2 * 128 * 1024 + 64 * 1024;

/// Asks for room in the connection for a start with as many grants as fit into an environment, so that whoever says it waits
/// for no reader. The system may give less (`net.core.wmem_max`); a start of which only half is taken is none.
///
/// # Errors
/// What the system says.
pub(crate) fn room_for_a_start(socket: &Socket) -> io::Result<()> {
    let bytes = if sabotage::active("no_room_for_a_start") { 4096 } else { START_BYTES };
    Ok(set_socket_send_buffer_size(socket, bytes)?)
}

/// Hands a descriptor to whoever has the other end.
///
/// # Errors
/// What the system says.
pub(crate) fn hand_over(socket: &Socket, descriptor: impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(b"\n")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Takes the descriptor that was handed over. It is closed in whatever this process executes.
///
/// # Errors
/// When there is none.
pub(crate) fn take_over(socket: &Socket) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    descriptors.flatten().next().ok_or_else(|| io::Error::other("no descriptor was handed over"))
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn every_message_comes_out_as_it_went_in() {
        let variables = vec![("A".to_owned(), "line\nline\0".to_owned()), ("B".to_owned(), String::new())];
        let start = Start { until: Moment::from_millis(u64::MAX), variables };
        assert!(!Order::Start(start.clone()).to_string().contains('\n'));
        for order in [Order::Start(start), Order::Until(Moment::from_millis(u64::MAX)), Order::Forward(15), Order::Stop]
        {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for report in [
            Report::Opening(7),
            Report::Started,
            Report::None(NoCommand::TooLate),
            Report::None(NoCommand::System("no such file: 'a b'".to_owned())),
            Report::None(NoCommand::Unusable { code: 127, why: "no such file".to_owned() }),
            Report::Ended(End::Exited(255)),
            Report::Ended(End::Killed(9)),
            Report::Gone(Why::Lost),
            Report::Gone(Why::Outlived),
            Report::Gone(Why::Leftovers),
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        for said in [
            Said::Becoming,
            Said::Not(NoCommand::TooLate),
            Said::Not(NoCommand::Unusable { code: 126, why: String::new() }),
        ] {
            assert_eq!(said.to_string().parse(), Ok(said));
        }
    }

    #[test]
    fn anything_else_is_no_message() {
        for line in ["", "until", "until -1", "until 1 2", "stop now", "forward TERM", "go", "start", "start {}"] {
            assert!(line.parse::<Order>().is_err(), "{line:?}");
        }
        for line in
            ["", "opening", "started 7", "exited 256", "exited -1", "gone", "gone yes", "unusable x y", "becoming"]
        {
            assert!(line.parse::<Report>().is_err(), "{line:?}");
        }
        for line in ["", "becoming x", "started", "exited 0"] {
            assert!(line.parse::<Said>().is_err(), "{line:?}");
        }
    }

    /// Mutant: what has come when the other side is gone is taken for a message; the command gets HUP for TERM.
    #[tokio::test]
    async fn half_a_message_is_none() {
        let (ours, mut theirs) = Socket::pair().unwrap();
        let mut link = Link::new(ours).unwrap();
        theirs.write_all(b"stop\nforward 1").unwrap();
        assert_eq!(link.hear().await.unwrap(), Some(Order::Stop));
        // Whoever gives up listening in the middle of a message has lost nothing of it.
        assert!(timeout(Duration::from_millis(20), link.hear::<Order>()).await.is_err());
        theirs.write_all(b"5\nforward 1").unwrap();
        assert_eq!(link.hear().await.unwrap(), Some(Order::Forward(15)));
        drop(theirs);
        assert_eq!(link.hear::<Order>().await.unwrap(), None);
    }
}
