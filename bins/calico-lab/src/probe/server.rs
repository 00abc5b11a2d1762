//! The servers of a pod.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener, UdpSocket as StdUdp};

use calico_dataplane::netns::Netns;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

use super::{TCP_PORTS, UDP_PORTS};
use crate::error::{Context, LabError};
use crate::plan::PodId;

/// The servers of one pod. They stop when this is dropped.
#[derive(Debug)]
pub(crate) struct Servers {
    _tasks: JoinSet<()>,
}

impl Servers {
    /// Opens the sockets inside `netns` and serves them from this process. Must be called inside a runtime.
    pub(crate) fn start(pod: PodId, netns: &Netns, address: IpAddr) -> Result<Self, LabError> {
        let failed = || format!("cannot open server sockets in pod {pod}");
        let (listeners, datagrams) = netns.run(|| open(address)).context(failed)?.context(failed)?;
        let mut tasks = JoinSet::new();
        for listener in listeners {
            let listener = TcpListener::from_std(listener).context(failed)?;
            tasks.spawn(serve_tcp(listener, pod.to_string()));
        }
        for socket in datagrams {
            let socket = UdpSocket::from_std(socket).context(failed)?;
            tasks.spawn(serve_udp(socket, pod.to_string()));
        }
        Ok(Self { _tasks: tasks })
    }
}

fn open(address: IpAddr) -> io::Result<(Vec<StdListener>, Vec<StdUdp>)> {
    let listeners = TCP_PORTS.map(|port| StdListener::bind(SocketAddr::new(address, port)));
    let listeners: Vec<_> = listeners.into_iter().collect::<io::Result<_>>()?;
    let datagrams = UDP_PORTS.map(|port| StdUdp::bind(SocketAddr::new(address, port)));
    let datagrams: Vec<_> = datagrams.into_iter().collect::<io::Result<_>>()?;
    listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
    datagrams.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
    Ok((listeners, datagrams))
}

/// Greets every connection with the pod's name and closes it.
async fn serve_tcp(listener: TcpListener, name: String) {
    loop {
        // A connection that is gone before it was accepted is the client's affair.
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let name = name.clone();
        tokio::spawn(async move {
            // The client tells success or failure; a server that cannot write is seen as silence there.
            let _ = stream.write_all(name.as_bytes()).await;
        });
    }
}

/// Answers every datagram with its own content and the pod's name.
async fn serve_udp(socket: UdpSocket, name: String) {
    let mut buffer = [0; 512];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let mut answer = buffer.get(..length).unwrap_or_default().to_vec();
        answer.extend_from_slice(name.as_bytes());
        let _ = socket.send_to(&answer, from).await;
    }
}
