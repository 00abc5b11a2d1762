//! `bgp`: what the speaker of this host knows, and why it does what it does. The agent is asked on its control socket.

use std::path::{Path, PathBuf};

use calico_cmd::control::{
    BgpExplanation, Client, ControlError, DEFAULT_SOCKET, PathFate, PathReport, PeerReport, RouteAttributes,
    RouteReport, SOCKET_ENV, ToldReport,
};
use calico_core::net::Cidr;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::node::{not_running, short};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Form, columns_of};

/// Verbs about BGP.
#[derive(Debug, Subcommand)]
pub(crate) enum BgpCommand {
    /// Show sessions: what was agreed on, prefixes, last errors
    Peers(PeersArgs),
    /// Show the routes of this host, or what one peer announced or is told
    #[command(after_help = ROUTES_HELP)]
    Routes(RoutesArgs),
    /// Say why a prefix is routed and announced as it is
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
}

const ROUTES_HELP: &str = "\
Examples:
  calicoctl bgp routes                                 workloads, blocks, and what BGP learned
  calicoctl bgp routes --peer 192.0.2.1                what that peer announced, and what became of it
  calicoctl bgp routes --peer rack1-tor --advertised   what it is told";

const EXPLAIN_HELP: &str = "\
Shows every path that a peer announced, which one was chosen and by which step of the decision the
others lost, which filter or check refused one, what the kernel gets, and for each peer what it is
told or why nothing.

Exit codes: 0 the prefix is known, 1 it is not or the agent does not answer, 2 wrong usage.";

/// Where and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct AskArgs {
    /// Control socket of the agent
    #[arg(long, env = SOCKET_ENV, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    control_socket: PathBuf,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value = "table")]
    output: Form,
}

/// Arguments of `bgp peers`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PeersArgs {
    /// Show one peer with all that is known of it: its address or name
    peer: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Arguments of `bgp routes`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RoutesArgs {
    /// What this peer announced: its address or name
    #[arg(long, value_name = "PEER")]
    peer: Option<String>,
    /// What the peer is told, instead
    #[arg(long, requires = "peer")]
    advertised: bool,
    #[command(flatten)]
    ask: AskArgs,
}

/// Arguments of `bgp explain`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExplainArgs {
    /// The prefix, exactly as it is announced: 10.65.0.0/26
    prefix: Cidr,
    #[command(flatten)]
    ask: AskArgs,
}

pub(crate) fn run(command: &BgpCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let text = match command {
        BgpCommand::Peers(args) => peers(args, context),
        BgpCommand::Routes(args) => routes(args),
        BgpCommand::Explain(args) => {
            let found = connect(&args.ask.control_socket)?.bgp_explain(args.prefix).map_err(not_running)?;
            Ok(shown(&found, args.ask.output, explained))
        }
    }?;
    Ok(write!(context.stdout, "{text}")?)
}

fn connect(path: &Path) -> Result<Client, Failure> {
    Client::connect(path).map_err(not_running)
}

fn shown<T: Serialize + ?Sized>(value: &T, form: Form, table: impl FnOnce(&T) -> String) -> String {
    match form {
        Form::Table => table(value),
        form => output::value(serde_json::to_value(value).unwrap_or_default(), form),
    }
}

fn peers(args: &PeersArgs, context: &Context<'_>) -> Result<String, Failure> {
    let status = connect(&args.ask.control_socket)?.status().map_err(not_running)?;
    let now = context.clock.now();
    let Some(wanted) = &args.peer else {
        let table = |peers: &[PeerReport]| {
            let mut rows = vec![heading(&["PEER", "NAME", "AS", "STATE", "SINCE", "RECEIVED", "SENT", "LAST ERROR"])];
            rows.extend(peers.iter().map(|peer| {
                let since = peer.since.map(|since| short(since, now)).unwrap_or_default();
                let as_number = peer.details.as_number.map(|number| number.to_string()).unwrap_or_default();
                let (received, sent) = (peer.received.to_string(), peer.details.sent.to_string());
                let error = peer.last_error.clone().unwrap_or_default();
                vec![
                    peer.address.clone(),
                    peer.name.clone(),
                    as_number,
                    peer.state.clone(),
                    since,
                    received,
                    sent,
                    error,
                ]
            }));
            if rows.len() == 1 { "No BGP peers.\n".to_owned() } else { columns_of(&rows) }
        };
        return Ok(shown(status.bgp.as_slice(), args.ask.output, table));
    };
    let mut found: Vec<&PeerReport> =
        status.bgp.iter().filter(|peer| peer.address == *wanted || peer.name == *wanted).collect();
    if found.is_empty() {
        return Err(Failure::message(format_args!("{wanted:?} is no BGP peer of this node")));
    }
    found.sort_by(|one, other| one.address.cmp(&other.address));
    Ok(shown(found.as_slice(), args.ask.output, |found| {
        found.iter().map(|peer| whole(peer, &peer.since.map(|since| short(since, now)).unwrap_or_default())).collect()
    }))
}

/// All that is known of a peer, a line each.
fn whole(peer: &PeerReport, since: &str) -> String {
    let details = &peer.details;
    let [opens, updates, notifications, keepalives, refreshes] =
        [0, 1, 2, 3, 4].map(|at| [&details.messages_sent, &details.messages_received].map(|all| all.get(at).copied()));
    let both = |[sent, received]: [Option<u64>; 2]| {
        format!("{} sent, {} received", sent.unwrap_or_default(), received.unwrap_or_default())
    };
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = [
        ("Peer", format!("{} ({})", peer.address, peer.name)),
        ("Type", peer.peer_type.clone() + if details.dynamic { ", called from a range" } else { "" }),
        ("AS", details.as_number.map(|number| number.to_string()).unwrap_or_default()),
        ("State", if since.is_empty() { peer.state.clone() } else { format!("{} since {since}", peer.state) }),
        ("Identifier", details.identifier.map(|id| id.to_string()).unwrap_or_default()),
        ("Agreed", details.agreed.join(", ")),
        ("Hold time", details.hold_time.map(|seconds| format!("{seconds} s")).unwrap_or_default()),
        ("BFD", details.bfd.map(|up| if up { "up" } else { "down" }.to_owned()).unwrap_or_default()),
        ("Prefixes", format!("{} received, {} sent", peer.received, details.sent)),
        ("Established", format!("{} times, {} changes of state", details.established, details.transitions)),
        ("OPEN", both(opens)),
        ("UPDATE", both(updates)),
        ("NOTIFICATION", both(notifications)),
        ("KEEPALIVE", both(keepalives)),
        ("ROUTE-REFRESH", both(refreshes)),
        ("Last error", optional(&peer.last_error)),
        ("Last sent", optional(&details.last_sent)),
        ("Last received", optional(&details.last_received)),
    ];
    let known = lines.iter().filter(|(_, text)| !text.is_empty());
    let rows: Vec<Vec<String>> = known.map(|(what, text)| vec![format!("{what}:"), text.clone()]).collect();
    columns_of(&rows) + "\n"
}

/// Pages until there are none.
fn all<T>(
    mut next: impl FnMut(Option<Cidr>) -> Result<(Vec<T>, bool), ControlError>,
    prefix: impl Fn(&T) -> Cidr,
) -> Result<Vec<T>, Failure> {
    let mut all: Vec<T> = Vec::new();
    loop {
        let (page, more) = next(all.last().map(&prefix)).map_err(not_running)?;
        // An agent that gives nothing and promises more would be asked for ever.
        let goes_on = more && !page.is_empty();
        all.extend(page);
        if !goes_on {
            return Ok(all);
        }
    }
}

fn routes(args: &RoutesArgs) -> Result<String, Failure> {
    let mut agent = connect(&args.ask.control_socket)?;
    let form = args.ask.output;
    Ok(match &args.peer {
        None => shown(all(|after| agent.routes(after), |route| route.destination)?.as_slice(), form, host_routes),
        Some(peer) if args.advertised => {
            let told = all(|after| agent.bgp_advertised(peer, after), |route| route.prefix)?;
            shown(told.as_slice(), form, advertised)
        }
        Some(peer) => {
            let paths = all(|after| agent.bgp_received(peer, after), |path| path.prefix)?;
            shown(paths.as_slice(), form, received)
        }
    })
}

fn heading(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn host_routes(routes: &[RouteReport]) -> String {
    let mut rows = vec![heading(&["DESTINATION", "VIA", "SOURCE", "PEER", "KERNEL"])];
    rows.extend(routes.iter().map(|route| {
        let gateways: Vec<String> = route.gateways.iter().map(ToString::to_string).collect();
        let via = match (route.interface, gateways.as_slice()) {
            (Some(interface), _) => format!("dev {interface}"),
            (None, []) => "blackhole".to_owned(),
            (None, _) => gateways.join(","),
        };
        let source = serde_json::to_value(route.source).ok().and_then(|word| word.as_str().map(str::to_owned));
        let kernel = if route.programmed { "yes" } else { "no" }.to_owned();
        let peer = route.peer.clone().unwrap_or_default();
        vec![route.destination.to_string(), via, source.unwrap_or_default(), peer, kernel]
    }));
    columns_of(&rows)
}

const ATTRIBUTES: [&str; 5] = ["NEXT HOP", "LOCAL PREF", "MED", "AS PATH", "COMMUNITIES"];

fn attributes(route: &RouteAttributes) -> Vec<String> {
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    vec![
        route.next_hop.clone(),
        number(route.local_pref),
        number(route.med),
        as_path(route),
        route.communities.join(" "),
    ]
}

fn as_path(route: &RouteAttributes) -> String {
    route.as_path.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn advertised(routes: &[ToldReport]) -> String {
    let mut rows = vec![heading(&[&["PREFIX"][..], &ATTRIBUTES].concat())];
    rows.extend(routes.iter().map(|told| [vec![told.prefix.to_string()], attributes(&told.route)].concat()));
    columns_of(&rows)
}

fn received(paths: &[PathReport]) -> String {
    let mut rows = vec![heading(&[&["PREFIX", "STATE"][..], &ATTRIBUTES, &["REASON"]].concat())];
    rows.extend(paths.iter().map(|path| {
        let reason = vec![path.reason.clone().unwrap_or_default()];
        [vec![path.prefix.to_string(), word(path)], attributes(&path.route), reason].concat()
    }));
    columns_of(&rows)
}

fn word(path: &PathReport) -> String {
    let fate = match path.fate {
        PathFate::Best => "best",
        PathFate::Shares => "shares",
        PathFate::BehindOwn => "behind own",
        PathFate::Refused => "refused",
        _ => "lost",
    };
    if path.stale { format!("{fate}, stale") } else { fate.to_owned() }
}

fn explained(found: &BgpExplanation) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{}\n", found.prefix);
    // Writing to a string cannot fail.
    if let Some(reason) = &found.originated {
        let _ = writeln!(text, "  originated here: {reason}");
    }
    for path in &found.paths {
        let _ = write!(text, "  path by {}, {}: {}", path.peer, word(path), sentence(&path.route));
        if let Some(reason) = &path.reason {
            let _ = write!(text, "\n    {reason}");
        }
        text.push('\n');
    }
    if let Some(kernel) = &found.kernel {
        let _ = writeln!(text, "  kernel: {kernel}");
    }
    for peer in &found.told {
        let _ = match (&peer.told, &peer.withheld) {
            (Some(route), _) => writeln!(text, "  told to {}: {}", peer.peer, sentence(route)),
            (None, reason) => {
                writeln!(text, "  not told to {}: {}", peer.peer, reason.as_deref().unwrap_or("nobody says why"))
            }
        };
    }
    text.lines().map(|line| calico_cmd::output::printable(line) + "\n").collect()
}

fn sentence(route: &RouteAttributes) -> String {
    let mut parts = vec![format!("via {}", route.next_hop)];
    parts.extend(route.local_pref.map(|number| format!("LOCAL_PREF {number}")));
    parts.extend(route.med.map(|number| format!("MED {number}")));
    parts.push(if route.as_path.is_empty() { "AS path empty".into() } else { format!("AS path {}", as_path(route)) });
    parts.push(format!("ORIGIN {}", route.origin));
    if !route.communities.is_empty() {
        parts.push(format!("communities {}", route.communities.join(" ")));
    }
    parts.extend(route.originator.map(|id| format!("ORIGINATOR_ID {id}")));
    if !route.clusters.is_empty() {
        let clusters: Vec<String> = route.clusters.iter().map(ToString::to_string).collect();
        parts.push(format!("CLUSTER_LIST {}", clusters.join(" ")));
    }
    parts.join(", ")
}
