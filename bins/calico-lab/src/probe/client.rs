//! The asking side.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use calico_core::flow::Decision;
use calico_dataplane::netns::Netns;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Kind, Observed, Probe, icmp};
use crate::error::{Context, LabError};

/// Sockets for the probes of one client pod, opened inside its namespace by one visit.
#[derive(Debug)]
pub(crate) struct Sockets {
    opened: Vec<io::Result<Socket>>,
}

impl Sockets {
    /// Opens a socket for each of `targets`.
    pub(crate) fn open(netns: &Netns, targets: &[(Kind, SocketAddr)]) -> Result<Self, LabError> {
        let open_all = || targets.iter().map(|(kind, to)| open(*kind, *to)).collect();
        let opened = netns.run(open_all).context(|| "cannot open a pod's client sockets".into())?;
        Ok(Self { opened })
    }

    /// The sockets, in the order of the targets.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = io::Result<Socket>> {
        self.opened.into_iter()
    }
}

fn open(kind: Kind, to: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(to);
    let socket = match kind {
        Kind::Tcp(_) => Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?,
        Kind::Udp(_) => Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?,
        Kind::Ping => return icmp::open(to),
    };
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sends one probe and waits for the answer, at most until `deadline`.
pub(crate) async fn send(
    probe: Probe,
    socket: io::Result<Socket>,
    address: IpAddr,
    nonce: u32,
    deadline: Instant,
) -> Observed {
    let to = probe.kind.target(address);
    let name = probe.to.to_string();
    let outcome = match (socket, probe.kind) {
        (Err(error), _) => Err(error),
        (Ok(socket), Kind::Tcp(_)) => tcp(socket, to, &name, deadline).await,
        (Ok(socket), Kind::Udp(_)) => {
            let expected = [nonce.to_be_bytes().as_slice(), name.as_bytes()].concat();
            let is_answer = |packet: &[u8]| packet == expected;
            datagrams(socket, to, &nonce.to_be_bytes(), is_answer, deadline).await
        }
        (Ok(socket), Kind::Ping) => {
            let is_answer = |packet: &[u8]| icmp::is_answer(packet, to, nonce);
            datagrams(socket, to, &icmp::request(to, nonce), is_answer, deadline).await
        }
    };
    outcome.map_or_else(|error| Observed::Error(error.to_string()), Observed::Verdict)
}

/// Connects and reads the greeting.
async fn tcp(socket: Socket, to: SocketAddr, name: &str, deadline: Instant) -> io::Result<Decision> {
    let socket = TcpSocket::from_std_stream(socket.into());
    let Ok(stream) = timeout_at(deadline, socket.connect(to)).await else { return Ok(Decision::Deny) };
    let mut stream: TcpStream = stream?;
    let mut greeting = Vec::new();
    match timeout_at(deadline, stream.read_to_end(&mut greeting)).await {
        // Connected, but the way back closed meanwhile: policy changed in between.
        Err(_) => Ok(Decision::Deny),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) if greeting == name.as_bytes() => Ok(Decision::Allow),
        Ok(Ok(_)) => Err(wrong_answer(&greeting)),
    }
}

/// Sends a datagram, again a few times in case one is lost, and waits for an answer.
async fn datagrams(
    socket: Socket,
    to: SocketAddr,
    request: &[u8],
    is_answer: impl Fn(&[u8]) -> bool,
    deadline: Instant,
) -> io::Result<Decision> {
    socket.connect(&SockAddr::from(to))?;
    // Tokio's type serves ICMP sockets as well: both are datagram sockets to the system.
    let socket = UdpSocket::from_std(OwnedFd::from(socket).into())?;
    let mut buffer = [0; 512];
    let mut next_send = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(deadline) => return Ok(Decision::Deny),
            () = sleep_until(next_send) => {
                socket.send(request).await?;
                next_send += RESEND;
            }
            received = socket.recv(&mut buffer) => {
                let packet = buffer.get(..received?).unwrap_or_default();
                return if is_answer(packet) { Ok(Decision::Allow) } else { Err(wrong_answer(packet)) };
            }
        }
    }
}

fn wrong_answer(answer: &[u8]) -> io::Error {
    let text = String::from_utf8_lossy(answer);
    io::Error::new(io::ErrorKind::InvalidData, format!("answered by the wrong pod, or nonsense: {text:?}"))
}

const RESEND: Duration = Duration::from_millis(200);
