//! Where servers that a test starts can listen.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel chooses from where it is asked for any.
const FIRST_PORT: u16 = 10_000;

/// An address and port of this machine where nobody listens, and that nobody else is given.
///
/// A port that the kernel chose and that was given back is anybody's until a server takes it. All of 127.0.0.0/8 is this machine, so
/// each process has an address of its own here, by its id, and each call another port, which the kernel gives to nobody by chance.
///
/// # Panics
/// When no port is left.
#[must_use]
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(FIRST_PORT);
    // An id has 22 bits: 127.64.0.0/10 holds them all.
    let own = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 64, 0, 0)) | (std::process::id() & 0x3f_ffff));
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(port >= FIRST_PORT, "this process was given every port");
        let address = SocketAddr::from((own, port));
        // Somebody may listen on every address of the machine. To try by listening there would be to listen for longer than it seems: a
        // process that a parallel test starts just then has inherited the socket until it executes its program.
        if TcpStream::connect(address).is_err() {
            return address;
        }
    }
}
