//! `policy explain`: one flow, and why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use calico_core::flow::{Decision, Flow};
use calico_core::net::Family;
use calico_core::resource::{Action, DefaultAction, PolicyType};
use calico_core::verdict::{Encapsulation, Stage, Step};
use clap::{ArgAction, Args};
use serde_json::{Value, json};

use super::ask::{self, Answer, Asked};
use super::hosts::Setting;
use super::model::Model;
use super::names::{Meant, Party};
use super::paint::{Page, Style};
use super::steps::{self, Shown, What};
use super::traffic::{self, TrafficArgs};
use super::written::Written;
use super::{FelixArgs, words};
use crate::args::FileOptions;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Form;

/// What there is to know beyond the options.
pub(crate) const HELP: &str = "\
Ends are workloads (NAMESPACE/WORKLOAD, where a pod's name may lack its last parts), host endpoints
(hep/NAME) or addresses. The answer is that of the dataplane's own engine: for each end the tiers,
policies and profiles in order, the rule that matched with its place in the document, and where
none did, why not. Policies that are staged say what they would do.

Policy does not see services: hosts translate their addresses to those of endpoints before it is
asked. Name an endpoint behind the service.

Examples:
  calicoctl policy explain --from shop/web --to shop/db:5432
  calicoctl policy explain --from 192.0.2.7 --to shop/web --protocol udp --port 53 -o json
  calicoctl policy explain --from shop/web --to 10.0.0.1 --icmp-type 8
  calicoctl policy explain -f cluster/ -f policy.yaml --from shop/web --to shop/db:5432

With -f nothing but the files counts: resources of Calico, and of Kubernetes NetworkPolicy,
Namespace, ServiceAccount, Pod and EndpointSlice. Settings of hosts are those of FelixConfiguration
default and, over it, node.NAME; where one decided, it is said which and where it is from, for
agents of this version take theirs from their environment (FELIX_...) alone.

Exit codes: 0 whatever the verdict, 1 failure, 2 wrong usage.";

/// Arguments of `policy explain`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExplainArgs {
    /// Where the flow comes from: NAMESPACE/WORKLOAD, hep/NAME or an address
    #[arg(long, value_name = "END")]
    from: String,
    /// Where it goes to; a port may follow a colon
    #[arg(long, value_name = "END")]
    to: String,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// File or directory to ask instead of the datastore, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", action = ArgAction::Append)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: FileOptions,
    #[command(flatten)]
    felix: FelixArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

/// A flow and what becomes of it.
struct Explained<'a> {
    model: &'a Model,
    from: &'a Meant,
    to: &'a Meant,
    flow: Flow,
    answer: Answer,
    remarks: Vec<String>,
}

pub(super) async fn explain(
    args: &ExplainArgs,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let model = super::model(&args.files, &args.felix, &args.options, config, context).await?;
    let from = model.names.resolve("--from", &args.from)?;
    let mut to = model.names.resolve("--to", &args.to)?;
    to.party = home(&from.party, to.party);
    if from.port.is_some() {
        return Err(Failure::Usage("--from takes no port: give --source-port".into()));
    }
    let flows = flows(args, &from, &to)?;
    let mut remarks: Vec<String> = from.remarks.iter().chain(&to.remarks).cloned().collect();
    let answers: Vec<_> =
        flows.into_iter().map(|flow| (flow, ask::ask(&model, &from.party, &to.party, &flow))).collect();
    let mut answers = answers.into_iter();
    let Some((flow, answer)) = answers.next() else { return Ok(()) };
    if let Some((_, other)) = answers.next().filter(|(_, other)| other.decision != answer.decision) {
        let does = if other.decision == Decision::Allow { "allowed" } else { "denied" };
        remarks.push(format!("over IPv6 it is {does}: ask with --ip-version 6"));
    }
    let is_host = |meant: &Meant| matches!(meant.party, Party::HostEndpoint { .. });
    let unsure = [&from, &to].into_iter().filter(|meant| !is_host(meant)).filter_map(|meant| meant.party.node());
    for node in unsure.filter(|node| from.party.node() != to.party.node() && model.is_uplink_unknown(node)) {
        remarks.push(format!(
            "which interface of {node} it passes is not known here: of its host endpoints only * counts"
        ));
    }
    remarks.extend(unseen(&model, &from.party, &to.party, &answer));
    remarks.extend(service(&model, &flow));
    remarks.extend(answer.ends.iter().flat_map(|asked| assumed(&model, asked)).collect::<BTreeSet<_>>());
    let explained = Explained { model: &model, from: &from, to: &to, flow, answer, remarks };
    let text = match args.output {
        Form::Table => explained.text(super::has_colours(context)),
        form => crate::output::value(explained.json(), form),
    };
    context.stdout.write_all(text.as_bytes())?;
    Ok(())
}

/// A host's loopback addresses are its own.
fn home(from: &Party, to: Party) -> Party {
    match (from, to) {
        (Party::HostEndpoint { node, .. } | Party::Host { node, .. }, Party::Outside(address))
            if address.is_loopback() =>
        {
            Party::Host { node: node.clone(), address }
        }
        (_, to) => to,
    }
}

/// Why nobody was asked.
fn unseen(model: &Model, from: &Party, to: &Party, answer: &Answer) -> Option<String> {
    if !answer.ends.is_empty() {
        return None;
    }
    let is_floating = |to: &Party| to.addresses().iter().any(|address| model.names.floating.contains_key(address));
    Some(match (from.node(), to.node()) {
        (Some(one), Some(other)) if one == other => {
            format!(
                "no policy is asked: both ends are the host {one} itself, and what stays on a host meets no host endpoint"
            )
        }
        (None, None) if is_floating(to) => return None,
        (None, None) => "no policy of this cluster sees this flow: neither end is an endpoint that it knows".into(),
        (one, other) => {
            let hosts: BTreeSet<&str> =
                one.into_iter().chain(other).filter(|node| model.uplink(node, None).is_none()).collect();
            let hosts: Vec<_> = hosts.into_iter().collect();
            format!("no policy is asked: {} has no host endpoint for it", hosts.join(", "))
        }
    })
}

/// Of an address that is no end of any flow that policy sees.
fn service(model: &Model, flow: &Flow) -> Option<String> {
    let is_service = model.state().network.services.iter().any(|net| net.contains(flow.destination));
    is_service.then(|| {
        format!(
            "{} is an address of services: hosts translate it to an endpoint behind the service before policy is asked; ask for one of those",
            flow.destination
        )
    })
}

/// Settings that decided, and where they are from.
fn assumed(model: &Model, asked: &Asked) -> Vec<String> {
    let node = asked.node.as_deref().unwrap_or_default();
    let setting = |step: &Step| match (step, asked.end.direction) {
        (Step::EndpointToHost(_), _) => Some(Setting::EndpointToHost),
        (Step::Failsafe, PolicyType::Ingress) => Some(Setting::FailsafesIn),
        (Step::Failsafe, PolicyType::Egress) => Some(Setting::FailsafesOut),
        (Step::Encapsulated(Encapsulation::Vxlan), _) => Some(Setting::VxlanAllowed),
        (Step::Encapsulated(Encapsulation::IpIp), _) => Some(Setting::IpIpAllowed),
        (Step::ServiceLoop, _) => Some(Setting::ServiceLoops),
        _ => None,
    };
    let told = |setting: Setting| {
        let (name, value) = (setting.name(), setting.value(model.settings_of(node)));
        match model.settings.giver(node, setting) {
            Some(giver) => format!(
                "{name} of {node} is taken to be {value}, as FelixConfiguration {giver} says; agents of this version take it from their \
                 environment alone (FELIX_{})",
                name.to_ascii_uppercase()
            ),
            None => format!(
                "{name} of {node} is taken to be the default, {value}; its agent's environment (FELIX_{}) may say otherwise",
                name.to_ascii_uppercase()
            ),
        }
    };
    asked.end.verdict.steps.iter().filter_map(setting).map(told).collect()
}

/// The flow in each family that both ends have, IPv4 first.
fn flows(args: &ExplainArgs, from: &Meant, to: &Meant) -> Result<Vec<Flow>, Failure> {
    let traffic = args.traffic.traffic(to.port).map_err(Failure::Usage)?;
    let wanted = args.traffic.family().map_err(Failure::Usage)?;
    let of =
        |meant: &Meant, family| meant.party.addresses().iter().copied().find(|address| Family::of(*address) == family);
    let is_wanted = |family: &Family| {
        wanted.is_none_or(|wanted| wanted == *family) && traffic.family().is_none_or(|own| own == *family)
    };
    let families = [Family::V4, Family::V6].into_iter();
    let flows: Vec<_> = families
        .filter(is_wanted)
        .filter_map(|family| Some(traffic.flow(of(from, family)?, of(to, family)?)))
        .collect();
    if !flows.is_empty() {
        return Ok(flows);
    }
    let list = |meant: &Meant| {
        let addresses: Vec<_> = meant.party.addresses().iter().map(ToString::to_string).collect();
        if addresses.is_empty() { "no address that is known".into() } else { addresses.join(", ") }
    };
    let hint = match traffic.family() {
        Some(Family::V4) => "\n  ICMP is of IPv4: for IPv6 give --protocol icmpv6",
        Some(Family::V6) => "\n  ICMPv6 is of IPv6: for IPv4 give --protocol icmp",
        None => "",
    };
    Err(Failure::Usage(format!(
        "there is no such flow: the ends have no addresses of one family for it\n  {} has {}\n  {} has {}{hint}",
        from.name,
        list(from),
        to.name,
        list(to)
    )))
}

impl Explained<'_> {
    fn json(&self) -> Value {
        let flow = &self.flow;
        let mut asked = json!({
            "from": self.from.name,
            "to": self.to.name,
            "source": flow.source,
            "destination": flow.destination,
            "protocol": traffic::name(flow.protocol),
        });
        if let Some((kind, code)) = flow.icmp {
            steps::put(&mut asked, "icmpType", json!(kind));
            steps::put(&mut asked, "icmpCode", json!(code));
        } else if traffic::has_ports(flow.protocol) {
            steps::put(&mut asked, "sourcePort", json!(flow.source_port));
            steps::put(&mut asked, "port", json!(flow.destination_port));
        }
        json!({
            "verdict": steps::verdict(self.answer.decision),
            "flow": asked,
            "ends": self.answer.ends.iter().map(|asked| self.end_json(asked)).collect::<Vec<_>>(),
            "remarks": self.remarks,
        })
    }

    fn end_json(&self, asked: &Asked) -> Value {
        let end = &asked.end;
        json!({
            "endpoint": end.endpoint.as_ref().map(|id| self.model.names.name(&id.0)),
            "node": asked.node,
            "direction": words::direction(end.direction),
            "policy": words::stage(end.stage),
            "verdict": steps::verdict(end.verdict.decision),
            "steps": steps::of(self.model, end, &self.flow).iter().map(Shown::json).collect::<Vec<_>>(),
        })
    }

    fn text(&self, has_colours: bool) -> String {
        let mut page = Page::new(has_colours);
        let heading = format!("{} → {}, {}: ", self.from.name, self.to.name, traffic::described(&self.flow));
        page.line(0, &[(Style::Bold, &heading), judged(self.answer.decision)]);
        for remark in &self.remarks {
            page.line(2, &[(Style::Odd, "note: "), (Style::Plain, remark)]);
        }
        for asked in &self.answer.ends {
            page.blank();
            self.end_text(asked, &mut page);
        }
        page.into_text()
    }

    fn end_text(&self, asked: &Asked, page: &mut Page) {
        let end = &asked.end;
        let name = end.endpoint.as_ref().map_or_else(|| "the host".to_owned(), |id| self.model.names.name(&id.0));
        let (way, address) = match end.direction {
            PolicyType::Ingress => ("to", self.flow.destination),
            PolicyType::Egress => ("from", self.flow.source),
        };
        let place = asked.node.as_ref().map_or_else(String::new, |node| format!(" on {node}"));
        let direction = words::direction(end.direction);
        let heading = match end.stage {
            Stage::Workload | Stage::Host => format!("{direction} {way} {name} ({address}){place}: "),
            stage => format!("{direction} through {name}{place}, {} policy: ", words::stage(stage)),
        };
        page.line(0, &[(Style::Bold, &heading), judged(end.verdict.decision)]);
        let (mut tier, mut owner) = (None, None);
        for step in steps::of(self.model, end, &self.flow) {
            if step.tier != tier {
                tier.clone_from(&step.tier);
                owner = None;
                if let Some(tier) = &tier {
                    page.line(2, &[(Style::Plain, "tier "), (Style::Plain, tier)]);
                }
            }
            let margin = if step.tier.is_some() { 4 } else { 2 };
            if step.owner != owner {
                owner.clone_from(&step.owner);
                if let Some(key) = &owner {
                    page.line(margin, &[(Style::Plain, &words::named(key))]);
                }
            }
            step_text(&step, margin, page);
        }
    }
}

const fn judged(decision: Decision) -> (Style, &'static str) {
    match decision {
        Decision::Allow => (Style::Good, "allowed"),
        Decision::Deny => (Style::Bad, "denied"),
    }
}

fn step_text(step: &Shown, margin: usize, page: &mut Page) {
    let mut rule = |mark: (Style, &str), written: &Written, below: &mut dyn Iterator<Item = &String>| {
        page.line(
            margin + 2,
            &[
                mark,
                (Style::Plain, "  "),
                (Style::Plain, &written.path),
                (Style::Plain, "  "),
                (Style::Plain, &written.text),
            ],
        );
        below.for_each(|line| page.line(margin + 6, &[(Style::Dim, line)]));
    };
    match &step.what {
        What::Rule { written, action, matched, is_staged } => {
            let mark = match action {
                _ if *is_staged => (Style::Odd, "would match"),
                Action::Allow => (Style::Good, "matches"),
                Action::Deny => (Style::Bad, "matches"),
                Action::Pass | Action::Log => (Style::Odd, "matches"),
            };
            rule(mark, written, &mut matched.iter().chain(&written.problem));
        }
        What::NoMatch { tried, is_staged } if tried.is_empty() => {
            let staged = if *is_staged { "; it is staged" } else { "" };
            page.line(margin + 2, &[(Style::Dim, "it has no rules for this direction"), (Style::Dim, staged)]);
        }
        What::NoMatch { tried, is_staged } => {
            let mark = if *is_staged { "would not match" } else { "no match" };
            tried
                .iter()
                .for_each(|tried| rule((Style::Dim, mark), &tried.written, &mut std::iter::once(&tried.because)));
        }
        What::WouldEndTier => page.line(
            margin,
            &[
                (Style::Odd, "would deny"),
                (Style::Plain, "  were its staged policies enforced, the end of the tier would deny"),
            ],
        ),
        What::EndOfTier(DefaultAction::Pass) => {
            page.line(
                margin,
                &[(Style::Odd, "Pass"), (Style::Plain, "  no rule of the tier decides, and its end passes on")],
            );
        }
        What::EndOfTier(_) => {
            page.line(
                margin,
                &[(Style::Bad, "Deny"), (Style::Plain, "  no rule of the tier decides, and its end denies")],
            );
        }
        What::Said(_, said) => page.line(margin, &[(Style::Plain, said)]),
    }
}
