//! Socket options that no library has: TCP MD5 signatures (RFC 2385) and the least TTL that is taken (RFC 5082).
//!
//! In: an open socket and what is wanted of it. Out: the kernel's answer. A key is copied into one argument, which is overwritten after
//! the call, and appears nowhere else.

use core::ffi::c_int;
use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use calico_core::bgp::Secret;
use calico_core::net::{Cidr, Family};
use nix::libc;

/// `TCP_MD5SIG_EXT` of `linux/tcp.h`.
const TCP_MD5SIG_EXT: c_int = 32;
const FLAG_PREFIX: u8 = 1;
/// `TCP_MD5SIG_MAXKEYLEN`.
const MOST_KEY: usize = 80;
const ADDRESS_LENGTH: usize = 128;

/// `struct tcp_md5sig` of `linux/tcp.h`.
#[repr(C)]
struct Md5Signature {
    address: [u8; ADDRESS_LENGTH],
    flags: u8,
    prefix_length: u8,
    key_length: u16,
    interface: c_int,
    key: [u8; MOST_KEY],
}

/// Sets the key of what goes to and comes from `peer`, or without one forgets it. (The kernel's argument has an interface as well, but takes
/// nothing but VRFs for one.)
pub(super) fn set_md5_key(socket: &impl AsFd, peer: Cidr, key: Option<&Secret>) -> io::Result<()> {
    let mut wanted = Md5Signature {
        address: socket_address(peer.address()),
        flags: FLAG_PREFIX,
        prefix_length: peer.length(),
        key_length: 0,
        interface: 0,
        key: [0; MOST_KEY],
    };
    let text = key.map(|key| key.expose().as_bytes()).unwrap_or_default();
    for (place, byte) in wanted.key.iter_mut().zip(text) {
        *place = *byte;
    }
    wanted.key_length = u16::try_from(text.len().min(MOST_KEY)).map_err(io::Error::other)?;
    let answer = set(socket, libc::IPPROTO_TCP, TCP_MD5SIG_EXT, &wanted);
    wanted.key = [0; MOST_KEY];
    core::hint::black_box(&wanted);
    answer
}

/// Packets with a lower TTL or hop limit are dropped by the kernel.
pub(super) fn set_least_ttl(socket: &impl AsFd, family: Family, least: u8) -> io::Result<()> {
    let least = c_int::from(least);
    match family {
        Family::V4 => set(socket, libc::IPPROTO_IP, libc::IP_MINTTL, &least),
        Family::V6 => set(socket, libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, &least),
    }
}

/// A `sockaddr_in` or `sockaddr_in6` with nothing but its family and address: the kernel looks at no more.
fn socket_address(address: IpAddr) -> [u8; ADDRESS_LENGTH] {
    let (family, start, octets) = match address {
        IpAddr::V4(address) => (libc::AF_INET, 4, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, 8, address.octets().to_vec()),
    };
    let mut bytes = [0; ADDRESS_LENGTH];
    let family = u16::try_from(family).unwrap_or_default().to_ne_bytes();
    for (place, byte) in bytes.iter_mut().zip(family) {
        *place = byte;
    }
    for (place, byte) in bytes.iter_mut().skip(start).zip(octets) {
        *place = byte;
    }
    bytes
}

#[expect(unsafe_code, reason = "the system libraries have no call for these options")]
fn set<T>(socket: &impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while the socket is borrowed, and the kernel reads `length` bytes of `value`, which is that long.
    let answer = unsafe { libc::setsockopt(descriptor, level, name, core::ptr::from_ref(value).cast(), length) };
    nix::errno::Errno::result(answer).map(drop).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_argument_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<Md5Signature>(), 216);
    }

    #[test]
    fn keys_come_and_go_and_one_that_is_unknown_is_told() {
        let key = Secret::new("hunter2".into()).unwrap();
        for (listen, peers) in
            [("127.0.0.1:0", ["10.0.0.2/32", "10.1.0.0/16"]), ("[::1]:0", ["2001:db8::2/128", "2001:db8::/32"])]
        {
            let socket = TcpListener::bind(listen).unwrap();
            for peer in peers.map(|peer| peer.parse().unwrap()) {
                set_md5_key(&socket, peer, Some(&key)).unwrap();
                set_md5_key(&socket, peer, None).unwrap();
                assert_eq!(set_md5_key(&socket, peer, None).unwrap_err().kind(), io::ErrorKind::NotFound);
            }
        }
    }

    #[test]
    fn the_least_ttl_is_taken() {
        for (listen, family) in [("127.0.0.1:0", Family::V4), ("[::1]:0", Family::V6)] {
            set_least_ttl(&TcpListener::bind(listen).unwrap(), family, 255).unwrap();
        }
    }
}
