//! The index of a link by its name: by a control call, because that takes neither the kernel's lock of all links nor a description
//! of the link (0.3 instead of 5 µs). A netlink socket hands such calls on to the devices of its network namespace.

use std::io;
use std::os::fd::AsRawFd;

use calico_core::net::InterfaceName;
use netlink_sys::Socket;
use nix::errno::Errno;
use nix::libc;

/// The link of that name, in the namespace of the socket.
#[expect(unsafe_code, reason = "the system libraries offer no call for a given socket")]
pub(super) fn of(socket: &Socket, name: InterfaceName) -> io::Result<Option<u32>> {
    let mut asked =
        libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_ifindex: 0 } };
    // A name is shorter than the array, so that a zero ends it.
    for (place, byte) in asked.ifr_name.iter_mut().zip(name.as_str().bytes()) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    // SAFETY: the descriptor is open while the socket is borrowed, and for this call the kernel reads and writes one `ifreq`.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut asked) };
    match Errno::result(answer) {
        // SAFETY: this call answers with an index; any bits are one.
        Ok(_) => Ok(u32::try_from(unsafe { asked.ifr_ifru.ifru_ifindex }).ok()),
        Err(Errno::ENODEV) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use netlink_sys::protocols::NETLINK_ROUTE;

    use super::*;
    use crate::testing::netns::scratch;

    #[test]
    fn the_index_is_that_of_the_sockets_namespace() {
        let (netns, other) = (scratch(), scratch());
        let open = || Socket::new(NETLINK_ROUTE).unwrap();
        let add = |name: &str| {
            let mut routes = crate::netns::RouteSocket::open().unwrap();
            let bridge: InterfaceName = name.parse().unwrap();
            routes.carry_out(&[crate::netns::Request::bridge(bridge)]).unwrap();
            routes.link(bridge).unwrap().unwrap().index
        };
        let longest = "bridge-15-chars";
        let first = netns.run(|| [add("first"), add(longest)]).unwrap();
        other.run(|| (add("second"), add("third"), add("first"))).unwrap();
        let socket = netns.run(open).unwrap();
        // From a thread in another namespace.
        let index = |name: &str| other.run(|| of(&socket, name.parse().unwrap())).unwrap().unwrap();
        assert_eq!([index("first"), index(longest)], first.map(Some));
        assert_eq!(index("second"), None);
    }
}
