//! `show protocols`, with or without `all`.

use core::net::IpAddr;

use super::reply::Reply;
use crate::SessionState;

/// A protocol of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// What it is: `BGP`, `Kernel`, …
    pub kind: String,
    /// `up`, `start`, `down`, …
    pub state: String,
    /// Since when, as BIRD says it.
    pub since: String,
    /// What else is said in its row.
    pub info: String,
    /// Address of its neighbour (`all` only).
    pub neighbor: Option<IpAddr>,
    /// State of its session (`all` only; of a row see [`session_state`](Self::session_state)).
    pub bgp_state: Option<String>,
    /// Routes taken from it, of all channels (`all` only).
    pub imported: usize,
    /// Why its last session ended (`all` only).
    pub last_error: Option<String>,
}

impl Protocol {
    /// State of a session of BGP. A session that waits to be called is active to everybody else.
    pub fn session_state(&self) -> SessionState {
        let word = self.bgp_state.as_deref().or_else(|| self.info.split_whitespace().next());
        match word {
            Some("Connect") => SessionState::Connect,
            Some("Active" | "Passive") => SessionState::Active,
            Some("OpenSent") => SessionState::OpenSent,
            Some("OpenConfirm") => SessionState::OpenConfirm,
            Some("Established") => SessionState::Established,
            _ => SessionState::Idle,
        }
    }

    /// What stands beside the session's state in its row, most often an error.
    pub fn remark(&self) -> Option<&str> {
        let rest = self.info.split_once(char::is_whitespace).map(|(_, rest)| rest.trim())?;
        (!rest.is_empty()).then_some(rest)
    }

    fn detail(&mut self, text: &str) {
        let Some((label, value)) = text.split_once(':') else { return };
        let value = value.trim();
        match label.trim() {
            "BGP state" => self.bgp_state = Some(value.to_owned()),
            "Neighbor address" => self.neighbor = address(value),
            "Last error" => self.last_error = Some(value.to_owned()),
            "Routes" => {
                let imported = value.split_whitespace().next().and_then(|number| number.parse::<usize>().ok());
                self.imported = self.imported.saturating_add(imported.unwrap_or(0));
            }
            _ => {}
        }
    }
}

/// An address, with or without its link.
fn address(text: &str) -> Option<IpAddr> {
    text.split('%').next().and_then(|text| text.parse().ok())
}

/// Of `show protocols`.
pub fn protocols(reply: &Reply) -> Vec<Protocol> {
    let mut found: Vec<Protocol> = Vec::new();
    for line in &reply.lines {
        match line.code {
            1002 => found.extend(row(&line.text)),
            1006 => {
                if let Some(protocol) = found.last_mut() {
                    protocol.detail(&line.text);
                }
            }
            _ => {}
        }
    }
    found
}

fn row(text: &str) -> Option<Protocol> {
    let (name, rest) = word(text)?;
    let (kind, rest) = word(rest)?;
    let (_table, rest) = word(rest)?;
    let (state, rest) = word(rest)?;
    let (since, info) = word(rest).unwrap_or_default();
    // A date may have a time beside it.
    let (since, info) = match word(info) {
        Some((time, rest))
            if since.contains('-') && time.contains(':') && time.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            (format!("{since} {time}"), rest)
        }
        _ => (since.to_owned(), info),
    };
    Some(Protocol {
        name: name.into(),
        kind: kind.into(),
        state: state.into(),
        since,
        info: info.trim().into(),
        ..Protocol::default()
    })
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    (!word.is_empty()).then_some((word, rest))
}

#[cfg(test)]
mod tests {
    use super::super::Replies;
    use super::*;

    fn parsed(text: &str) -> Vec<Protocol> {
        let mut replies = Replies::default();
        replies.push(text.as_bytes());
        protocols(&replies.next_reply().unwrap().unwrap())
    }

    #[test]
    fn rows_of_both_dialects() {
        let two = parsed(
            "2002-Name       Proto      Table      State  Since         Info\n\
             1002-static1    Static     master4    up     18:01:01.928  \n \
             Mesh_10_77_0_2 BGP        ---        start  18:01:03.770  Active        Socket: Connection closed\n \
             Node_10_77_0_10 BGP        ---        down   2026-11-30 18:01:01  \n0000 \n",
        );
        let [other, mesh, node] = two.as_slice() else { panic!("{two:?}") };
        assert_eq!((other.kind.as_str(), other.session_state()), ("Static", SessionState::Idle));
        assert_eq!((mesh.name.as_str(), mesh.state.as_str()), ("Mesh_10_77_0_2", "start"));
        assert_eq!((mesh.session_state(), mesh.remark()), (SessionState::Active, Some("Socket: Connection closed")));
        assert_eq!((node.since.as_str(), node.info.as_str()), ("2026-11-30 18:01:01", ""));
        let one = parsed(
            "2002-name     proto    table    state  since       info\n1002-Mesh_10_77_0_1 BGP      master   up     18:01:03    Established   \n \
             Node_10_77_0_9 BGP      master   start  18:01:01    Passive       \n0000 \n",
        );
        let states: Vec<SessionState> = one.iter().map(Protocol::session_state).collect();
        assert_eq!(states, [SessionState::Established, SessionState::Active]);
    }

    #[test]
    fn details_of_both_dialects() {
        for details in [
            "1006-  BGP state:          Established\n     Neighbor address: fe80::1%eth0\n     Last error:       Socket: Network is unreachable\n   \
             Channel ipv4\n     Routes:         2 imported, 2 exported, 2 preferred\n   Channel ipv6\n     Routes:         3 imported, 2 exported\n \n",
            "1006-  Preference:     100\n   Routes:         5 imported, 2 exported, 2 preferred\n   BGP state:          Established\n     \
             Neighbor address: fe80::1\n     Last error:       Socket: Network is unreachable\n \n",
        ] {
            let found = parsed(&format!(
                "2002-x\n1002-Mesh_fe80__1 BGP        ---        up     18:01:04.629  Established   \n{details}1002-device1 Device --- up 1 \n1006-\n0000 \n"
            ));
            let [mesh, device] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(mesh.neighbor, Some("fe80::1".parse().unwrap()));
            assert_eq!(mesh.imported, 5);
            assert_eq!(mesh.last_error.as_deref(), Some("Socket: Network is unreachable"));
            assert_eq!(device.neighbor, None);
        }
    }
}
