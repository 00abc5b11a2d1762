//! The command line. Every flag has its environment twin, most of them upstream's.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use calico_cmd::control::{DEFAULT_SOCKET, SOCKET_ENV};
use calico_core::bgp::RouterIdSource;
use calico_core::cni::WorkloadPrefixes;
use calico_core::net::{AsNumber, Cidr, Family};
use calico_core::resource::NodeAddress;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::bird_args::BirdArgs;
use crate::policy_args::PolicyArgs;
use crate::startup::address::Method;
use crate::startup::identity;

/// The node agent of Calico: policy, routes and BGP of one host, in one process.
#[derive(Debug, Parser)]
#[expect(clippy::exhaustive_structs, reason = "filled by the parser")]
#[command(name = "calico-node", version, about, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Verbs.
#[derive(Debug, Subcommand)]
#[expect(clippy::exhaustive_enums, reason = "parsed here, matched in this crate")]
pub enum Command {
    /// Register this host and keep its policy, routes and BGP sessions as the datastore says, until told to stop
    ///
    /// Nothing is flushed on exit: what was enforced stays enforced, and the next start takes it over.
    Run(Box<RunArgs>),
    /// Show what the running agent of this host does
    Status(StatusArgs),
    /// Remove what an upstream node in iptables mode left on this host: its rules, its chains and its IP sets, and nothing else
    ///
    /// To be called once this host's agent is ready: what both allow goes on all the while. To call it again is harmless.
    CleanupIptables,
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::exhaustive_structs, reason = "filled by the parser")]
pub struct RunArgs {
    /// Name of this node; must never change in the life of a host [default: the nodename file, then the host's name]
    #[arg(long, env = "NODENAME", value_name = "NAME")]
    pub node_name: Option<String>,
    /// File that remembers the node name across changes of the host's name; a directory other than the default one must exist
    #[arg(long, env = "CALICO_NODENAME_FILE", value_name = "FILE", default_value = identity::DEFAULT_FILE)]
    pub nodename_file: PathBuf,
    /// IPv4 address of this node: an address (with or without its subnet), `autodetect`, or `none` [default: keep what is stored,
    /// else autodetect]
    #[arg(long, env = "IP", value_name = "ADDRESS", value_parser = ip_setting)]
    pub ip: Option<IpSetting>,
    /// How to find the address: `first-found`, `interface=REGEX-FREE-NAME[,…]` (`eth0`, `eth*`), or `cidr=CIDR[,…]`
    #[arg(long, env = "IP_AUTODETECTION_METHOD", value_name = "METHOD", default_value = "first-found",
          value_parser = Method::from_str)]
    pub ip_autodetection_method: Method,
    /// IPv6 address of this node: an address (with or without its subnet), `autodetect`, or `none` [default: keep what is stored]
    #[arg(long, env = "IP6", value_name = "ADDRESS", value_parser = ip6_setting)]
    pub ip6: Option<IpSetting>,
    /// How to find the IPv6 address; as `--ip-autodetection-method`
    #[arg(long, env = "IP6_AUTODETECTION_METHOD", value_name = "METHOD", default_value = "first-found",
          value_parser = Method::from_str)]
    pub ip6_autodetection_method: Method,
    /// BGP identifier of this node: an IPv4 address, or `hash` for one made of its name [default: its IPv4 address; without one, it needs this]
    #[arg(long, env = "CALICO_ROUTER_ID", value_name = "ID", default_value = "", hide_default_value = true, value_parser = router_id)]
    pub router_id: RouterIdSource,
    /// AS number of this node, where it differs from the cluster's
    #[arg(long = "as", env = "AS", value_name = "NUMBER", value_parser = as_number)]
    pub as_number: Option<AsNumber>,
    /// Who speaks BGP
    #[arg(long, env = "CALICO_NETWORKING_BACKEND", value_name = "BACKEND", value_enum, default_value = "native")]
    pub backend: Backend,
    /// TCP port that BGP listens on and connects to
    #[arg(long, env = "CALICO_BGP_PORT", value_name = "PORT", default_value_t = 179, value_parser = clap::value_parser!(u16).range(1..))]
    pub bgp_port: u16,
    /// Directory with the secrets that passwords of BGP sessions are in: a directory for each, a file for each key
    #[arg(long, env = "CALICO_BGP_SECRETS", value_name = "DIRECTORY", default_value = "/etc/calico/bgp-secrets")]
    pub bgp_secrets: PathBuf,
    /// Range of the IPv4 pool that is made when the cluster has none; `none` makes none
    #[arg(long, env = "CALICO_IPV4POOL_CIDR", value_name = "CIDR", default_value = "192.168.0.0/16", value_parser = pool_cidr)]
    pub ipv4_pool_cidr: PoolCidr,
    /// Prefix length of the blocks of that pool, 20 to 32
    #[arg(long, env = "CALICO_IPV4POOL_BLOCK_SIZE", value_name = "LENGTH", default_value_t = 26,
          value_parser = clap::value_parser!(u8).range(20..=32))]
    pub ipv4_pool_block_size: u8,
    /// What this cluster is made of, words separated by commas, which are added to those that the datastore has
    #[arg(long, env = "CLUSTER_TYPE", value_name = "WORD[,…]", default_value = "")]
    pub cluster_type: String,
    /// How policy is carried out.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// How the names of workloads' interfaces begin; the CNI plugin must have the same `FELIX_INTERFACEPREFIX`, since interfaces of other
    /// names are not policed
    #[arg(long, env = WorkloadPrefixes::VARIABLE, value_name = "PREFIX[,…]", default_value = "cali")]
    pub interface_prefix: WorkloadPrefixes,
    /// Control socket
    #[arg(long, env = SOCKET_ENV, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub control_socket: PathBuf,
    /// Serve `/liveness`, `/readiness` and `/metrics` over HTTP
    #[arg(long, env = "FELIX_HEALTHENABLED", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
          default_value = "false", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::Set)]
    pub health_enabled: bool,
    /// Address of the health server
    #[arg(long, env = "FELIX_HEALTHHOST", value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = health_host)]
    pub health_host: IpAddr,
    /// Port of the health server
    #[arg(long, env = "FELIX_HEALTHPORT", value_name = "PORT", default_value_t = 9099)]
    pub health_port: u16,
    /// Least severity that is logged
    #[arg(long, env = "FELIX_LOGSEVERITYSCREEN", value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
    /// Where BIRD is.
    #[command(flatten)]
    pub bird: BirdArgs,
}

impl Cli {
    /// Parses a command line. A variable of the environment that is set and empty counts as unset: upstream's environment files are
    /// full of them.
    pub fn parse_from_process(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
        let without_empty = |arg: Arg| {
            let empty = arg.get_env().is_some_and(is_empty);
            if empty { arg.env(None::<&'static str>) } else { arg }
        };
        let args = without_confd(args.into_iter().collect());
        let command = Self::command().mut_subcommands(|command| command.mut_args(without_empty));
        Self::from_arg_matches_mut(&mut command.try_get_matches_from(args)?)
    }
}

/// Upstream starts what writes BIRD's configuration with `-confd`, as a process of its own; here it is the agent that does.
fn without_confd(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|first| matches!(first.to_str(), Some("-confd" | "--confd"))) {
        args.splice(1..2, ["run", "--backend", "bird"].map(OsString::from));
    }
    args
}

impl RunArgs {
    /// Where the health server listens, if it does.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health_enabled.then(|| SocketAddr::new(self.health_host, self.health_port))
    }
}

/// Arguments of `status`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::exhaustive_structs, reason = "filled by the parser")]
pub struct StatusArgs {
    /// Control socket of the agent
    #[arg(long, env = SOCKET_ENV, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub control_socket: PathBuf,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: StatusOutput,
}

/// Form of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "parsed here, matched in this crate")]
pub enum StatusOutput {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// What `IP` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "parsed here, matched in this crate")]
pub enum IpSetting {
    /// Find one each time.
    Autodetect,
    /// Keep what is stored, if anything is.
    None,
    /// This one.
    Address(NodeAddress),
}

/// Who speaks BGP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "parsed here, matched in this crate")]
pub enum Backend {
    /// The speaker in this process.
    Native,
    /// BIRD 2, or upstream's 1.6, which runs beside this process and is given its configuration.
    Bird,
    /// Nobody: policy only.
    None,
}

/// A pool's range, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "parsed here, matched in this crate")]
pub enum PoolCidr {
    /// No pool is made.
    None,
    /// This range.
    Range(Cidr),
}

fn pool_cidr(text: &str) -> Result<PoolCidr, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(PoolCidr::None);
    }
    let cidr = Cidr::parse_strict(text).map_err(|error| error.to_string())?;
    match cidr.address() {
        IpAddr::V4(_) if cidr.length() <= 26 => Ok(PoolCidr::Range(cidr)),
        _ => Err(format!("{cidr} is no IPv4 range that holds a block: give one of /26 or shorter")),
    }
}

fn as_number(text: &str) -> Result<AsNumber, String> {
    match text.parse::<AsNumber>() {
        Ok(number) if number.value() == 0 => Err("AS 0 is nobody's (RFC 7607): give 1 to 4294967295".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn ip_setting(text: &str) -> Result<IpSetting, String> {
    setting_of(Family::V4, text).ok_or_else(|| "give an IPv4 address, `autodetect` or `none`".into())
}

fn ip6_setting(text: &str) -> Result<IpSetting, String> {
    setting_of(Family::V6, text).ok_or_else(|| "give an IPv6 address, `autodetect` or `none`".into())
}

fn setting_of(family: Family, text: &str) -> Option<IpSetting> {
    match text.trim() {
        "autodetect" => Some(IpSetting::Autodetect),
        "none" => Some(IpSetting::None),
        text => {
            let address: NodeAddress = text.parse().ok()?;
            (Family::of(address.address()) == family).then_some(IpSetting::Address(address))
        }
    }
}

fn router_id(text: &str) -> Result<RouterIdSource, String> {
    match text.trim() {
        "" => Ok(RouterIdSource::NodeAddress),
        "hash" => Ok(RouterIdSource::NameHash),
        text => match text.parse::<Ipv4Addr>() {
            Ok(id) if !id.is_unspecified() => Ok(RouterIdSource::Literal(id)),
            _ => Err("give an IPv4 address other than 0.0.0.0, or `hash`".into()),
        },
    }
}

fn health_host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        Ok(IpAddr::from([127, 0, 0, 1]))
    } else {
        text.parse().map_err(|_| "give an address".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn zero_is_no_as_number_and_no_port() {
        let parse = |argument: &str| Cli::try_parse_from(["calico-node", "run", argument]);
        for bad in ["--as=0", "--as=0.0", "--as=x", "--bgp-port=0"] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains(bad.split('=').next().unwrap()), "{error}");
        }
        assert!(parse("--as=0").unwrap_err().to_string().contains("RFC 7607"));
        for good in ["--as=1", "--as=1.0", "--as=4294967295", "--bgp-port=1", "--bgp-port=65535"] {
            parse(good).unwrap();
        }
    }

    #[test]
    fn addresses_are_of_their_family_and_identifiers_are_not_zero() {
        for (good, bad) in [("--ip=10.0.0.1/24", "--ip=fd00::1"), ("--ip6=fd00::1/64", "--ip6=10.0.0.1")] {
            Cli::try_parse_from(["calico-node", "run", good]).unwrap();
            Cli::try_parse_from(["calico-node", "run", bad]).unwrap_err();
        }
        assert_eq!(router_id(""), Ok(RouterIdSource::NodeAddress));
        assert_eq!(router_id("hash"), Ok(RouterIdSource::NameHash));
        assert_eq!(router_id("1.2.3.4"), Ok(RouterIdSource::Literal(Ipv4Addr::new(1, 2, 3, 4))));
        for bad in ["0.0.0.0", "fd00::1", "Hash", "1"] {
            assert!(router_id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn confd_is_the_agent_with_bird() {
        let args = ["calico-node", "-confd", "--bird-dialect", "1.6"].map(OsString::from);
        let Command::Run(args) = Cli::parse_from_process(args).unwrap().command else { panic!("not run") };
        assert_eq!((args.backend, args.bird.bird_dialect), (Backend::Bird, crate::bird_args::BirdDialect::OneSix));
        assert_eq!(args.bird.bird_socket, PathBuf::from("/var/run/calico/bird.ctl"));
    }

    #[test]
    fn pools_are_ipv4_ranges_or_none() {
        assert_eq!(pool_cidr("NONE"), Ok(PoolCidr::None));
        assert!(matches!(pool_cidr("10.0.0.0/16"), Ok(PoolCidr::Range(_))));
        for bad in ["10.0.0.1/16", "fd00::/48", "10.0.0.0/27", "x"] {
            assert!(pool_cidr(bad).is_err(), "{bad}");
        }
    }
}
