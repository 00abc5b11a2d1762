//! Where BIRD is, for nodes on which it speaks BGP.

use std::path::PathBuf;

use calico_bgp::bird::{BirdConfig, BirdLogLevel, BirdPaths, BirdSettings, Generation, KernelMetric, KernelSettings};
use clap::{Args, ValueEnum};

/// BIRD beside this agent: paths are upstream's unless given. On Debian: `/etc/bird/bird.conf` and `/run/bird/bird.ctl`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "BIRD (backend `bird`)")]
#[expect(clippy::exhaustive_structs, reason = "filled by the parser")]
pub struct BirdArgs {
    /// Which BIRD is written for
    #[arg(long, env = "CALICO_BIRD_DIALECT", value_name = "DIALECT", value_enum, default_value = "auto")]
    pub bird_dialect: BirdDialect,
    /// Configuration that is written; BIRD is started with it (`bird -R -c FILE -s SOCKET`)
    #[arg(long, env = "CALICO_BIRD_CONFIG", value_name = "FILE", default_value = "/etc/calico/confd/config/bird.cfg")]
    pub bird_config: PathBuf,
    /// Control socket of BIRD
    #[arg(long, env = "CALICO_BIRD_SOCKET", value_name = "SOCKET", default_value = "/var/run/calico/bird.ctl")]
    pub bird_socket: PathBuf,
    /// Program of BIRD, which checks what is written while the daemon does not run
    #[arg(long, env = "CALICO_BIRD_PROGRAM", value_name = "FILE", default_value = "bird")]
    pub bird_program: PathBuf,
    /// Configuration of the daemon for IPv6 (BIRD 1.6 only)
    #[arg(
        long,
        env = "CALICO_BIRD6_CONFIG",
        value_name = "FILE",
        default_value = "/etc/calico/confd/config/bird6.cfg"
    )]
    pub bird6_config: PathBuf,
    /// Control socket of the daemon for IPv6 (BIRD 1.6 only)
    #[arg(long, env = "CALICO_BIRD6_SOCKET", value_name = "SOCKET", default_value = "/var/run/calico/bird6.ctl")]
    pub bird6_socket: PathBuf,
    /// Program of the daemon for IPv6 (BIRD 1.6 only)
    #[arg(long, env = "CALICO_BIRD6_PROGRAM", value_name = "FILE", default_value = "bird6")]
    pub bird6_program: PathBuf,
}

/// Which BIRD is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "parsed here, matched in this crate")]
pub enum BirdDialect {
    /// The one that answers on the socket, else the program, else 2.
    Auto,
    /// BIRD 2: one daemon for both families.
    #[value(name = "2")]
    Two,
    /// Upstream's BIRD 1.6: a daemon for each family.
    #[value(name = "1.6")]
    OneSix,
}

impl BirdArgs {
    /// As the backend takes it. Learned routes get `metric`.
    pub(crate) fn config(&self, metric: u32, log_level: &str) -> BirdConfig {
        // One metric for all: BIRD before 2.16 leaves the copy of the old one in the kernel when a route's metric changes.
        let kernel = KernelSettings { metric: KernelMetric::Fixed(metric), ..KernelSettings::default() };
        let log_level = match log_level.to_ascii_lowercase().as_str() {
            "debug" | "trace" => BirdLogLevel::Debug,
            "info" => BirdLogLevel::Info,
            _ => BirdLogLevel::Quiet,
        };
        let paths = |program: &PathBuf, config: &PathBuf, socket: &PathBuf| BirdPaths {
            program: program.clone(),
            config: config.clone(),
            socket: socket.clone(),
        };
        BirdConfig {
            daemon: paths(&self.bird_program, &self.bird_config, &self.bird_socket),
            daemon6: paths(&self.bird6_program, &self.bird6_config, &self.bird6_socket),
            generation: match self.bird_dialect {
                BirdDialect::Auto => None,
                BirdDialect::Two => Some(Generation::Two),
                BirdDialect::OneSix => Some(Generation::OneSix),
            },
            settings: BirdSettings { kernel: Some(kernel), log_level, ..BirdSettings::default() },
            ..BirdConfig::default()
        }
    }
}
