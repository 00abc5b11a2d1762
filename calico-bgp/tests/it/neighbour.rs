//! BIRD, FRR and GoBGP as the one neighbour of a session that a test wants to see.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;

use calico_core::bgp::Families;
use calico_core::net::Family;
use tempfile::TempDir;

use crate::support::{PORT, STARTING};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemon {
    Bird,
    Frr,
    GoBgp,
}

pub(crate) const ALL: [Daemon; 3] = [Daemon::Bird, Daemon::Frr, Daemon::GoBgp];

/// Their end of a session.
#[derive(Debug, Clone)]
pub(crate) struct Theirs {
    pub(crate) address: IpAddr,
    pub(crate) as_number: u32,
    pub(crate) neighbour: IpAddr,
    pub(crate) neighbour_as: u32,
    pub(crate) families: Families,
    pub(crate) password: Option<&'static str>,
    /// TTL security over one hop.
    pub(crate) ttl_security: bool,
    /// It waits to be called.
    pub(crate) passive: bool,
    /// As BIRD and FRR spell it.
    pub(crate) role: Option<&'static str>,
    /// Long-lived graceful restart, so many seconds.
    pub(crate) long_lived: Option<u32>,
}

/// A running daemon; it is killed when dropped.
pub(crate) struct Neighbour {
    directory: TempDir,
    process: Child,
    daemon: Daemon,
}

impl Neighbour {
    pub(crate) fn start(daemon: Daemon, theirs: &Theirs) -> Self {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("configuration"), daemon.configuration(theirs)).unwrap();
        let log = std::fs::File::create(path("log")).unwrap();
        let mut command = match daemon {
            Daemon::Bird => bird(&path("configuration"), &path("bird.ctl")),
            Daemon::Frr => frr(directory.path(), theirs.address),
            Daemon::GoBgp => go_bgp(&path("configuration"), &path("api")),
        };
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let process = command.spawn().unwrap_or_else(|error| {
            panic!("this test needs {:?} (Debian packages bird2, frr, gobgpd): {error}", command.get_program())
        });
        Self { directory, process, daemon }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn log(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
        format!("{:?}\n{}\n{}", self.daemon, read("configuration"), read("log"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn bird(configuration: &str, control: &str) -> Command {
    let mut command = Command::new("bird");
    command.args(["-f", "-c", configuration, "-s", control]);
    command
}

/// Without zebra it takes every next hop for reachable.
fn frr(directory: &Path, listen: IpAddr) -> Command {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let own = Command::new("chown").args(["-R", "frr:frr"]).arg(directory).status();
    assert!(own.is_ok_and(|status| status.success()), "this test needs FRR's user (Debian package frr)");
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let mut command = Command::new("/usr/lib/frr/bgpd");
    command.args(["-f", &path("configuration"), "--vty_socket", directory.to_str().unwrap(), "-i", &path("pid")]);
    command.args(["-Z", "-n", "-A", "127.0.0.1", "-P", "0", "-l", &listen.to_string(), "-p", &PORT.to_string()]);
    command.args(["--log", "stdout"]);
    command
}

fn go_bgp(configuration: &str, api: &str) -> Command {
    let mut command = Command::new("gobgpd");
    command.args(["-f", configuration, "--api-hosts", &format!("unix://{api}"), "--pprof-disable", "-l", "debug"]);
    command
}

impl Daemon {
    fn configuration(self, theirs: &Theirs) -> String {
        match self {
            Self::Bird => theirs.bird(),
            Self::Frr => theirs.frr(),
            Self::GoBgp => theirs.go_bgp(),
        }
    }
}

impl Theirs {
    /// A plain session of the address's family.
    pub(crate) fn new(address: IpAddr, as_number: u32, neighbour: IpAddr, neighbour_as: u32) -> Self {
        Self {
            address,
            as_number,
            neighbour,
            neighbour_as,
            families: Families::only(Family::of(address)),
            password: None,
            ttl_security: false,
            passive: false,
            role: None,
            long_lived: None,
        }
    }

    fn bird(&self) -> String {
        let Self { address, as_number, neighbour, neighbour_as, .. } = self;
        let mut text = String::from("log stderr all;\nrouter id 10.77.0.2;\nprotocol device {}\n");
        text += "protocol static { ipv4; route 10.2.0.0/26 blackhole; }\nprotocol static { ipv6; route fd02::/64 blackhole; }\n";
        writeln!(text, "protocol bgp native {{\n  local {address} port {PORT} as {as_number};").unwrap();
        writeln!(text, "  neighbor {neighbour} port {PORT} as {neighbour_as};\n  strict bind on; graceful restart on;")
            .unwrap();
        text += "  connect delay time 1; connect retry time 1; error wait time 1, 2;\n";
        // A direct session wants its neighbour on a link, which there is none of here.
        text += if self.ttl_security { "  multihop 1; ttl security on;\n" } else { "  multihop;\n" };
        if let Some(password) = self.password {
            writeln!(text, "  password \"{password}\";").unwrap();
        }
        if self.passive {
            text += "  passive on;\n";
        }
        if let Some(role) = self.role {
            writeln!(text, "  local role {role};").unwrap();
        }
        for family in self.families.iter() {
            let name = if family == Family::V4 { "ipv4" } else { "ipv6" };
            writeln!(text, "  {name} {{ import all; export where source = RTS_STATIC; next hop self; }};").unwrap();
        }
        text + "}\n"
    }

    fn frr(&self) -> String {
        let Self { address, as_number, neighbour, neighbour_as, .. } = self;
        let mut text = format!(
            "log stdout debugging\ndebug bgp neighbor-events\nrouter bgp {as_number}\n bgp router-id 10.77.0.2\n"
        );
        text += " no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n no bgp network import-check\n bgp graceful-restart\n";
        if let Some(seconds) = self.long_lived {
            writeln!(text, " bgp long-lived-graceful-restart stale-time {seconds}").unwrap();
        }
        let mut say = |words: &str| writeln!(text, " neighbor {neighbour} {words}").unwrap();
        say(&format!("remote-as {neighbour_as}"));
        say(&format!("port {PORT}"));
        say(&format!("update-source {address}"));
        say("timers connect 1");
        match (self.ttl_security, as_number == neighbour_as) {
            (true, _) => say("ttl-security hops 1"),
            (false, true) => {}
            (false, false) => say("ebgp-multihop 64"),
        }
        if let Some(password) = self.password {
            say(&format!("password {password}"));
        }
        if self.passive {
            say("passive");
        }
        if let Some(role) = self.role {
            say(&format!("local-role {role}"));
        }
        for family in self.families.iter() {
            let (name, network) = if family == Family::V4 { ("ipv4", "10.2.0.0/26") } else { ("ipv6", "fd02::/64") };
            writeln!(text, " address-family {name} unicast\n  neighbor {neighbour} activate\n  network {network}\n exit-address-family").unwrap();
        }
        text
    }

    fn go_bgp(&self) -> String {
        let Self { address, as_number, neighbour, neighbour_as, .. } = self;
        let mut text = format!("[global.config]\n  as = {as_number}\n  router-id = \"10.77.0.2\"\n  port = {PORT}\n");
        writeln!(text, "  local-address-list = [\"{address}\"]\n[[neighbors]]\n  [neighbors.config]").unwrap();
        writeln!(text, "    neighbor-address = \"{neighbour}\"\n    peer-as = {neighbour_as}").unwrap();
        if let Some(password) = self.password {
            writeln!(text, "    auth-password = \"{password}\"").unwrap();
        }
        writeln!(text, "  [neighbors.timers.config]\n    connect-retry = 1\n    idle-hold-time-after-reset = 1")
            .unwrap();
        writeln!(text, "  [neighbors.transport.config]\n    local-address = \"{address}\"\n    remote-port = {PORT}")
            .unwrap();
        writeln!(text, "    passive-mode = {}", self.passive).unwrap();
        if self.ttl_security {
            text += "  [neighbors.ttl-security.config]\n    enabled = true\n    ttl-min = 255\n";
        } else if as_number != neighbour_as {
            text += "  [neighbors.ebgp-multihop.config]\n    enabled = true\n    multihop-ttl = 64\n";
        }
        text += "  [neighbors.graceful-restart.config]\n    enabled = true\n    restart-time = 120\n";
        for family in self.families.iter() {
            let name = if family == Family::V4 { "ipv4-unicast" } else { "ipv6-unicast" };
            writeln!(
                text,
                "  [[neighbors.afi-safis]]\n    [neighbors.afi-safis.config]\n      afi-safi-name = \"{name}\""
            )
            .unwrap();
            text += "    [neighbors.afi-safis.mp-graceful-restart.config]\n      enabled = true\n";
        }
        text
    }
}
