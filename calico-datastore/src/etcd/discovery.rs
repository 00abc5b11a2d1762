//! The members of an etcd cluster by DNS: SRV records of the services `etcd-client-ssl` and `etcd-client`.
//!
//! Comes in: a domain; goes out: URLs, those with the lowest priority first. Where a domain has members with TLS and without,
//! only those with TLS count: nobody who can answer DNS may talk a client out of encryption.
//!
//! The question goes to the name servers of the `resolv.conf` that the configuration names, in order; an answer too long for a
//! datagram is asked for again over TCP. Only the answer with the number and the question that were sent, from the address that was
//! asked, is one.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::{DatastoreError, Discovery};

/// Wait for one server's answer; glibc's default.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest datagram without extensions is 512 bytes; some servers send more.
const DATAGRAM: usize = 4096;

/// The service names of upstream's client, with the scheme that each stands for.
const SERVICES: [(&str, &str); 2] = [("etcd-client-ssl", "https"), ("etcd-client", "http")];

/// Looks up a domain's members.
pub(super) async fn endpoints(discovery: &Discovery) -> Result<Vec<String>, DatastoreError> {
    let path = discovery.resolv_conf.clone();
    let operation = format!("read {}", path.display());
    let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let text = text
        .unwrap_or_else(|gone| Err(std::io::Error::other(gone)))
        .map_err(|source| DatastoreError::Unavailable { operation, source: Some(Box::new(source)) })?;
    endpoints_at(&name_servers(&text), &discovery.domain).await
}

/// As [`endpoints`], at given servers.
pub(super) async fn endpoints_at(servers: &[SocketAddr], domain: &str) -> Result<Vec<String>, DatastoreError> {
    let mut nowhere = Vec::new();
    for (service, scheme) in SERVICES {
        let name = format!("_{service}._tcp.{}", domain.trim_end_matches('.'));
        let targets = look_up(servers, &name).await?;
        if !targets.is_empty() {
            let url = |target: Target| format!("{scheme}://{}:{}", target.host, target.port);
            return Ok(targets.into_iter().map(url).collect());
        }
        nowhere.push(name);
    }
    Err(unavailable(&format!("find its members: DNS has no SRV record {}", nowhere.join(" and none ")), None))
}

/// The servers of a `resolv.conf`; the machine's own if it names none.
fn name_servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next()).flatten()?;
        // A link-local address carries its interface, which a socket address cannot take as text.
        address.parse::<IpAddr>().ok()
    };
    let mut servers: Vec<_> = text.lines().filter_map(server).collect();
    if servers.is_empty() {
        servers.push(IpAddr::from([127, 0, 0, 1]));
    }
    servers.into_iter().map(|address| SocketAddr::new(address, 53)).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    priority: u16,
    host: String,
    port: u16,
}

/// The targets of a name, best first; none if the name does not exist.
async fn look_up(servers: &[SocketAddr], name: &str) -> Result<Vec<Target>, DatastoreError> {
    let mut last = None;
    for server in servers {
        match ask(*server, name).await {
            Ok(targets) => return Ok(targets),
            Err(reason) => last = Some(format!("{server}: {reason}").into()),
        }
    }
    Err(unavailable(&format!("look up the SRV record {name}"), last))
}

async fn ask(server: SocketAddr, name: &str) -> Result<Vec<Target>, String> {
    // Who cannot see the question must not be able to guess its number; the hasher's keys are random.
    let number = u16::try_from(RandomState::new().hash_one(name) & 0xffff).unwrap_or(0);
    let question = question(number, name)?;
    let answer = async {
        let answer = by_datagram(server, &question).await?;
        match targets(&answer, number, name)? {
            Some(targets) => Ok(targets),
            None => targets(&by_stream(server, &question).await?, number, name)?
                .ok_or_else(|| "the answer is truncated over TCP, too".to_owned()),
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

fn question(number: u16, name: &str) -> Result<Vec<u8>, String> {
    let no_name = |error: simple_dns::SimpleDnsError| format!("{name:?} is no DNS name: {error}");
    let mut packet = Packet::new_query(number);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(no_name)?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::SRV), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(no_name)
}

async fn by_datagram(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>, String> {
    let exchange = async {
        let any: IpAddr = if server.is_ipv4() { [0_u8; 4].into() } else { [0_u16; 8].into() };
        let socket = UdpSocket::bind((any, 0)).await?;
        // Connected, so that the kernel keeps out what others send.
        socket.connect(server).await?;
        socket.send(question).await?;
        let mut answer = vec![0; DATAGRAM];
        let length = socket.recv(&mut answer).await?;
        answer.truncate(length);
        Ok(answer)
    };
    exchange.await.map_err(|error: std::io::Error| error.to_string())
}

/// A message over TCP has its length before it.
async fn by_stream(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(question.len()).map_err(std::io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    };
    exchange.await.map_err(|error: std::io::Error| error.to_string())
}

/// The targets that an answer names; `None` if it is cut off.
fn targets(answer: &[u8], number: u16, name: &str) -> Result<Option<Vec<Target>>, String> {
    let packet = Packet::parse(answer).map_err(|error| format!("the answer cannot be read: {error}"))?;
    let asked = packet.questions.first().map(|question| question.qname.to_string());
    let is_answer = packet.has_flags(PacketFlag::RESPONSE) && packet.id() == number;
    if !is_answer || !asked.is_some_and(|asked| asked.eq_ignore_ascii_case(name)) {
        return Err("it answers another question".to_owned());
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Ok(None);
    }
    match packet.rcode() {
        RCODE::NoError | RCODE::NameError => {}
        other => return Err(format!("the server says {other:?}")),
    }
    let target = |data: &RData<'_>| match data {
        RData::SRV(record) => {
            Some(Target { priority: record.priority, host: record.target.to_string(), port: record.port })
        }
        _ => None,
    };
    // A target without a name says that the service is decidedly not there (RFC 2782).
    let targets = packet.answers.iter().filter_map(|record| target(&record.rdata));
    let mut targets: Vec<_> = targets.filter(|target| !target.host.is_empty()).collect();
    targets.sort_by_key(|target| target.priority);
    Ok(Some(targets))
}

fn unavailable(operation: &str, source: Option<Box<dyn std::error::Error + Send + Sync>>) -> DatastoreError {
    DatastoreError::Unavailable { operation: format!("etcd: {operation}"), source }
}

#[cfg(test)]
mod tests;
