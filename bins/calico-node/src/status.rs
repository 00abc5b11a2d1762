//! `calico-node status`: what the running agent does, for people or programs.

use std::fmt::Write as _;

use calico_cmd::control::{Client, ControlError, DatastoreState, NodeStatus};
use calico_cmd::output::printable;

use crate::cli::{StatusArgs, StatusOutput};

/// Asks the agent and words its answer.
pub(crate) fn fetch(args: &StatusArgs) -> Result<String, ControlError> {
    let status = Client::connect(&args.control_socket)?.status()?;
    Ok(match args.output {
        StatusOutput::Json => serde_json::to_string_pretty(&status).unwrap_or_default(),
        StatusOutput::Table => table(&status),
    })
}

fn table(status: &NodeStatus) -> String {
    let datastore = match status.datastore {
        DatastoreState::InSync if status.datastore_error.is_some() => {
            "in sync when it was last read; changes are not told"
        }
        DatastoreState::InSync => "in sync",
        DatastoreState::Resync => "reading the snapshot",
        _ => "no contact (what was enforced stays enforced)",
    };
    let kernel = if status.dataplane_in_sync { "holds everything" } else { "does not hold everything yet" };
    let mut text = format!(
        "Node:       {} (calico-node {}, up {} s)\nDatastore:  {datastore}\nKernel:     {kernel}\n\
         Endpoints:  {} workloads, {} hosts\nPolicy:     {} policies and profiles, {} IP sets\nRoutes:     {} learned by BGP\n",
        status.node,
        status.version,
        status.uptime_ms / 1000,
        status.endpoints,
        status.host_endpoints,
        status.policies,
        status.ip_sets,
        status.bgp_routes
    );
    if !status.bgp.is_empty() {
        text.push_str("\nBGP sessions:\n");
        let width = |get: fn(&calico_cmd::control::PeerReport) -> &str| {
            status.bgp.iter().map(|peer| get(peer).len()).max().unwrap_or_default()
        };
        let (address, name) = (width(|peer| &peer.address), width(|peer| &peer.name));
        let kind = width(|peer| &peer.peer_type);
        for peer in &status.bgp {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "  {:address$}  {:name$}  {:kind$}  {}, {} prefixes",
                peer.address,
                printable(&peer.name),
                peer.peer_type,
                peer.state,
                peer.received
            );
            if let (Some(error), true) = (&peer.last_error, peer.state != "Established") {
                let _ = write!(text, " ({})", printable(error));
            }
            text.push('\n');
        }
    }
    for (title, lines) in [
        ("Failed at the datastore, tried again:", status.datastore_error.iter().map(String::as_str).collect()),
        (
            "Refused by the kernel, tried again:",
            status.dataplane_error.iter().flat_map(|text| text.lines()).collect::<Vec<_>>(),
        ),
        ("Going on:", status.notices.iter().map(String::as_str).collect()),
        ("Cannot be used:", status.diagnostics.iter().map(String::as_str).collect()),
    ] {
        if !lines.is_empty() {
            let _ = write!(text, "\n{title}\n");
            for line in lines {
                let _ = writeln!(text, "  {}", printable(line));
            }
        }
    }
    add_endpoints(&mut text, status);
    text
}

/// Most endpoints that the page names.
const ENDPOINTS: usize = 20;

fn add_endpoints(text: &mut String, status: &NodeStatus) {
    if status.endpoint_problems.is_empty() {
        return;
    }
    text.push_str("\nNot as written, by endpoint:\n");
    let shown = status.endpoint_problems.iter().take(ENDPOINTS);
    let others = status.endpoints_with_problems.saturating_sub(shown.len());
    for endpoint in shown {
        let _ = writeln!(text, "  {}", printable(&endpoint.endpoint));
        for problem in &endpoint.first {
            let _ = writeln!(text, "    {}", printable(problem));
        }
        let more = endpoint.count.saturating_sub(endpoint.first.len());
        if more > 0 {
            let _ = writeln!(text, "    and {more} more");
        }
    }
    if others > 0 {
        let _ = writeln!(text, "  and {others} other endpoints (--output json names more)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calico_cmd::control::{EndpointProblems, PeerDetails, PeerReport};

    #[test]
    fn reads_as_a_page() {
        let status = NodeStatus {
            node: "host-a".into(),
            version: "0.1.0".into(),
            uptime_ms: 61_500,
            datastore: DatastoreState::InSync,
            datastore_error: None,
            endpoints: 2,
            host_endpoints: 1,
            policies: 3,
            ip_sets: 4,
            dataplane_in_sync: false,
            dataplane_error: Some("route 10.0.0.1/32: no such device".into()),
            diagnostics: vec!["Tier(x): bad order".into()],
            endpoint_problems: vec![EndpointProblems {
                endpoint: "WorkloadEndpoint(default/pod)".into(),
                count: 3,
                first: vec!["Tier(x): bad order".into()],
            }],
            endpoints_with_problems: 1,
            notices: vec!["BGP: one route waits".into()],
            bgp_backend: Some("native".into()),
            bgp_identifier: None,
            bgp_configured: None,
            bgp: vec![PeerReport {
                address: "192.0.2.1".into(),
                name: "host-b".into(),
                peer_type: "node-to-node mesh".into(),
                state: "Active".into(),
                since: None,
                received: 0,
                last_error: Some("hold timer expired".into()),
                details: PeerDetails::default(),
            }],
            bgp_routes: 5,
        };
        let page = "\
Node:       host-a (calico-node 0.1.0, up 61 s)
Datastore:  in sync
Kernel:     does not hold everything yet
Endpoints:  2 workloads, 1 hosts
Policy:     3 policies and profiles, 4 IP sets
Routes:     5 learned by BGP

BGP sessions:
  192.0.2.1  host-b  node-to-node mesh  Active, 0 prefixes (hold timer expired)

Refused by the kernel, tried again:
  route 10.0.0.1/32: no such device

Going on:
  BGP: one route waits

Cannot be used:
  Tier(x): bad order

Not as written, by endpoint:
  WorkloadEndpoint(default/pod)
    Tier(x): bad order
    and 2 more
";
        assert_eq!(table(&status), page);

        let forged = NodeStatus { diagnostics: vec!["Tier(x\u{1b}[2J\nKernel: fine): bad".into()], ..status.clone() };
        assert!(table(&forged).contains("\n  Tier(x\u{fffd}[2J\u{fffd}Kernel: fine): bad\n"));

        let crowd = vec![status.endpoint_problems[0].clone(); ENDPOINTS + 1];
        let crowded = NodeStatus { endpoint_problems: crowd, endpoints_with_problems: 700, ..status.clone() };
        let page = table(&crowded);
        assert_eq!(page.matches("  WorkloadEndpoint(default/pod)\n").count(), ENDPOINTS);
        assert!(page.ends_with("    and 2 more\n  and 680 other endpoints (--output json names more)\n"), "{page}");

        let reason = "datastore is unavailable: etcd list at http://192.0.2.9:2379: Connection refused";
        let (datastore, datastore_error) = (DatastoreState::Waiting, Some(reason.into()));
        let page = table(&NodeStatus { datastore, datastore_error, ..status });
        let told = "Datastore:  no contact (what was enforced stays enforced)\n";
        assert!(page.contains(told), "{page}");
        assert!(page.contains(&format!("\nFailed at the datastore, tried again:\n  {reason}\n\nRefused")), "{page}");
    }
}
