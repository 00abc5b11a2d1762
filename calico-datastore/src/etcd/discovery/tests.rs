//! Look-ups against a name server that the test is.

use simple_dns::rdata::SRV;
use simple_dns::{ResourceRecord, SimpleDnsError};
use tokio::net::TcpListener;

use super::*;

/// Records of the zone: name, priority, port, target.
type Zone = Vec<(&'static str, u16, u16, &'static str)>;

/// How the server behaves on UDP.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Plain,
    /// Cuts everything off: the client must come by TCP.
    Truncating,
    /// Answers with another number.
    Forged,
    /// Fails.
    Broken,
}

fn reply(query: &[u8], zone: &Zone, manner: Manner) -> Result<Vec<u8>, SimpleDnsError> {
    let query = Packet::parse(query)?;
    let number = if manner == Manner::Forged { query.id().wrapping_add(1) } else { query.id() };
    let mut reply = Packet::new_reply(number);
    reply.set_flags(PacketFlag::RESPONSE);
    let asked = query.questions[0].clone();
    let name = asked.qname.to_string();
    reply.questions.push(asked);
    match manner {
        Manner::Truncating => reply.set_flags(PacketFlag::TRUNCATION),
        Manner::Broken => *reply.rcode_mut() = RCODE::ServerFailure,
        Manner::Plain | Manner::Forged => {
            let records: Vec<_> = zone.iter().filter(|(owner, ..)| *owner == name).collect();
            if records.is_empty() {
                *reply.rcode_mut() = RCODE::NameError;
            }
            for (owner, priority, port, target) in records {
                let data = SRV { priority: *priority, weight: 0, port: *port, target: Name::new(target)? };
                reply.answers.push(ResourceRecord::new(Name::new(owner)?, CLASS::IN, 60, RData::SRV(data)));
            }
        }
    }
    reply.build_bytes_vec()
}

/// A name server on UDP and TCP, on one port.
async fn serve(zone: Zone, manner: Manner) -> SocketAddr {
    let (listener, socket) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // The same number may be taken on UDP.
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
            break (listener, socket);
        }
    };
    let address = listener.local_addr().unwrap();
    let records = zone.clone();
    tokio::spawn(async move {
        let mut query = [0; DATAGRAM];
        loop {
            let (length, client) = socket.recv_from(&mut query).await.unwrap();
            socket.send_to(&reply(&query[..length], &records, manner).unwrap(), client).await.unwrap();
        }
    });
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
            stream.read_exact(&mut query).await.unwrap();
            let reply = reply(&query, &zone, Manner::Plain).unwrap();
            stream.write_u16(u16::try_from(reply.len()).unwrap()).await.unwrap();
            stream.write_all(&reply).await.unwrap();
        }
    });
    address
}

const PLAIN: &str = "_etcd-client._tcp.example.com";
const TLS: &str = "_etcd-client-ssl._tcp.example.com";

#[tokio::test]
async fn members_come_by_priority_and_tls_goes_first() {
    let zone = vec![(PLAIN, 2, 2379, "b.example.com"), (PLAIN, 1, 2380, "a.example.com"), (PLAIN, 0, 1, "")];
    let server = serve(zone.clone(), Manner::Plain).await;
    let found = endpoints_at(&[server], "example.com").await.unwrap();
    assert_eq!(found, ["http://a.example.com:2380", "http://b.example.com:2379"], "an empty target is none");

    let both = [zone, vec![(TLS, 9, 2379, "c.example.com")]].concat();
    let server = serve(both, Manner::Plain).await;
    assert_eq!(endpoints_at(&[server], "example.com.").await.unwrap(), ["https://c.example.com:2379"]);
}

#[tokio::test]
async fn a_long_answer_comes_by_tcp() {
    let server = serve(vec![(PLAIN, 0, 2379, "a.example.com")], Manner::Truncating).await;
    assert_eq!(endpoints_at(&[server], "example.com").await.unwrap(), ["http://a.example.com:2379"]);
}

#[tokio::test]
async fn the_next_server_is_asked_when_one_fails_and_a_forgery_counts_for_nothing() {
    let good = serve(vec![(PLAIN, 0, 2379, "a.example.com")], Manner::Plain).await;
    let broken = serve(Vec::new(), Manner::Broken).await;
    let forged = serve(vec![(TLS, 0, 666, "evil.example.com")], Manner::Forged).await;
    let found = endpoints_at(&[broken, forged, good], "example.com").await.unwrap();
    assert_eq!(found, ["http://a.example.com:2379"]);
    let error = endpoints_at(&[broken, forged], "example.com").await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains(TLS), "{error}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains(&forged.to_string()) && source.contains("another question"), "{source}");
}

#[tokio::test]
async fn a_domain_without_members_is_named() {
    let server = serve(Vec::new(), Manner::Plain).await;
    let error = endpoints_at(&[server], "example.com").await.unwrap_err().to_string();
    assert!(error.contains(PLAIN) && error.contains(TLS), "{error}");
    let error = endpoints_at(&[server], &"x".repeat(300)).await.unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("no DNS name"), "{error:?}");
}

#[test]
fn name_servers_are_those_of_the_file() {
    let text = "# nameserver 9.9.9.9\nsearch x\nnameserver 10.0.0.1\nnameserver\tfd00::1\nnameserver fe80::1%eth0\n";
    let servers: Vec<_> = name_servers(text).iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["10.0.0.1:53", "[fd00::1]:53"]);
    assert_eq!(name_servers("").len(), 1);
}
