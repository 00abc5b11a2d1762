//! `show status`, and what is answered to `configure`.

use core::net::Ipv4Addr;

use super::reply::Reply;

/// How the daemon is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DaemonStatus {
    /// Its version, as it says it.
    pub version: Option<String>,
    /// Its router id.
    pub router_id: Option<Ipv4Addr>,
    /// Its clock, as it says it.
    pub server_time: Option<String>,
    /// When it was started.
    pub last_boot: Option<String>,
    /// When it last took a configuration.
    pub last_reconfiguration: Option<String>,
    /// It was started anew and waits for its peers' routes.
    pub recovering: bool,
    /// A configuration is being taken.
    pub configuring: bool,
}

/// What became of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Configured {
    /// It is in force (0003), or would be taken (0020).
    Done,
    /// It is on its way (0004), or comes after another one that is (0005).
    Pending,
    /// It is refused, and the former one stays in force.
    Refused(String),
    /// Something else was said.
    Unclear(String),
}

/// Of `show status`.
pub fn status(reply: &Reply) -> DaemonStatus {
    let after = |begin: &str| {
        let mut found = reply.texts(1011).filter_map(|text| text.strip_prefix(begin));
        found.next().map(|text| text.trim().to_owned())
    };
    DaemonStatus {
        version: reply.texts(1000).next().and_then(version),
        router_id: after("Router ID is ").and_then(|text| text.parse().ok()),
        server_time: after("Current server time is "),
        last_boot: after("Last reboot on "),
        last_reconfiguration: after("Last reconfiguration on "),
        recovering: reply.texts(24).next().is_some(),
        configuring: reply.last().is_some_and(|line| line.text.starts_with("Reconfiguration in progress")),
    }
}

/// Of the line that a connection begins with: the version, `2.0.12` or `v0.3.3+birdv1.6.8`.
pub fn version_of_greeting(reply: &Reply) -> Option<String> {
    reply.texts(1).next().and_then(|text| version(text.trim_end_matches(" ready.")))
}

fn version(text: &str) -> Option<String> {
    text.strip_prefix("BIRD ").map(|version| version.trim().to_owned())
}

/// Of `configure` and `configure check`.
pub fn configured(reply: &Reply) -> Configured {
    let Some(last) = reply.last() else { return Configured::Unclear(String::new()) };
    match last.code {
        3 | 20 => Configured::Done,
        4 | 5 => Configured::Pending,
        8000.. => Configured::Refused(last.text.clone()),
        _ => Configured::Unclear(last.text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Replies;
    use super::*;

    fn reply(text: &str) -> Reply {
        let mut replies = Replies::default();
        replies.push(text.as_bytes());
        replies.next_reply().unwrap().unwrap()
    }

    #[test]
    fn both_dialects_tell_how_they_are() {
        let two = status(&reply(
            "1000-BIRD 2.0.12\n1011-Router ID is 10.77.0.1\n Hostname is vm\n Current server time is 2026-12-01 18:01:03.343\n \
             Last reboot on 2026-12-01 18:01:01.928\n Last reconfiguration on 2026-12-01 18:01:01.928\n\
             0024-Graceful restart recovery in progress\n   Waiting for 1 channels to recover\n   Wait timer is 238.585/240\n\
             0013 Daemon is up and running\n",
        ));
        assert_eq!(two.version.as_deref(), Some("2.0.12"));
        assert_eq!(two.router_id, Some(Ipv4Addr::new(10, 77, 0, 1)));
        assert_eq!(two.last_boot.as_deref(), Some("2026-12-01 18:01:01.928"));
        assert!(two.recovering && !two.configuring);
        let one = status(&reply(
            "1000-BIRD v0.3.3+birdv1.6.8\n1011-Router ID is 10.77.0.2\n Current server time is 2026-12-01 18:01:13\n \
             Last reboot on 2026-12-01 18:01:01\n Last reconfiguration on 2026-12-01 18:01:01\n0013 Reconfiguration in progress\n",
        ));
        assert_eq!(one.version.as_deref(), Some("v0.3.3+birdv1.6.8"));
        assert!(!one.recovering && one.configuring);
    }

    #[test]
    fn greetings_have_a_version() {
        assert_eq!(version_of_greeting(&reply("0001 BIRD 2.0.12 ready.\n")).as_deref(), Some("2.0.12"));
        assert_eq!(version_of_greeting(&reply("0001 FRR ready.\n")), None);
    }

    #[test]
    fn what_becomes_of_a_configuration() {
        let rows = [
            ("0003 Reconfigured\n", Configured::Done),
            ("0020 Configuration OK\n", Configured::Done),
            ("0004 Reconfiguration in progress\n", Configured::Pending),
            ("0005 Reconfiguration already in progress, queueing new config\n", Configured::Pending),
            (
                "8002 x:15:87 You may set only variables.\n",
                Configured::Refused("x:15:87 You may set only variables.".into()),
            ),
            (
                "0006 Reconfiguration ignored, shutting down\n",
                Configured::Unclear("Reconfiguration ignored, shutting down".into()),
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(configured(&reply(&format!("0002-Reading configuration from x\n{text}"))), expected);
        }
    }
}
