//! The forms of text that upstream's validators know (`libcalico-go/lib/validator/v3`, upstream).

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::check::{SUBDOMAIN, is_subdomain};
use super::limit::{Flaw, Format};
use crate::net::{Cidr, Family};
use crate::selector::Selector;
use crate::time::Timestamp;

/// Text that a predicate accepts.
fn when(is_right: bool) -> Result<(), Flaw> {
    if is_right { Ok(()) } else { Err(Flaw::default()) }
}

/// `name`: what objects are called.
pub(super) static NAME: Format =
    Format { words: SUBDOMAIN, check: |text| when(is_subdomain(text)), samples: &["a", "node-1", "a.b-c"] };

/// A selector without `global()`.
pub(super) static SELECTOR: Format = Format {
    words: "a selector such as role == 'web'",
    check: |text| {
        if text.contains("global(") {
            let reason = Some("global() is for namespace selectors of rules only".to_string());
            return Err(Flaw { reason, offset: text.find("global(") });
        }
        Selector::parse(text).map(drop).map_err(|error| Flaw {
            reason: Some(alloc::format!("selector syntax {error}")),
            offset: Some(error.position()),
        })
    },
    samples: &["all()", "a == 'b'", "has(x) && y in {'1', '2'}"],
};

/// `interface`: one interface or all.
pub(super) static INTERFACE: Format = Format {
    words: "'*' or 1 to 15 letters, digits, '_', '.', '-'",
    check: |text| when(text == "*" || is_interface(text, b"_.-")),
    samples: &["*", "eth0", "bond0.100"],
};

/// `portName`: the name of a port, as Kubernetes has it.
pub(super) static PORT_NAME: Format = Format {
    words: "1 to 15 lower-case letters, digits and single '-', with a letter among them",
    check: |text| when(is_port_name(text)),
    samples: &["http", "dns-tcp", "8080-a"],
};

/// A bare address.
pub(super) static ADDRESS: Format = Format {
    words: "an IP address such as 10.0.0.1",
    check: |text| when(text.parse::<IpAddr>().is_ok()),
    samples: &["10.0.0.1", "fd00::1"],
};

/// `cidr`: an address or a prefix, host bits allowed.
pub(super) static CIDR: Format = Format {
    words: "an address or a prefix such as 10.0.0.0/24",
    check: |text| when(text.parse::<Cidr>().is_ok()),
    samples: &["10.0.0.0/24", "10.0.0.1", "fd00::/64"],
};

/// `bgpFilterInterface`: one interface, or a pattern of several.
pub(super) static INTERFACE_PATTERN: Format = Format {
    words: "1 to 15 letters, digits, '_', '.', '-', '*'",
    check: |text| when(is_interface(text, b"_.*-")),
    samples: &["*", "eth*", "cali0"],
};

/// `ignoredInterface`: as [`INTERFACE_PATTERN`], but not all of them.
pub(super) static IGNORED_INTERFACE: Format = Format {
    words: "1 to 15 letters, digits, '_', '.', '-', '*', and not '*' alone",
    check: |text| when(text != "*" && is_interface(text, b"_.*-")),
    samples: &["kube-*", "dummy0"],
};

/// `ifaceFilter`: an interface as packet filters name it, where a '+' at the end stands for anything.
pub(super) static INTERFACE_FILTER: Format = Format {
    words: "1 to 15 letters, digits, ':', '.', '_', '+', '-'",
    check: |text| when(is_interface(text, b":._+-")),
    samples: &["docker+", "eth0"],
};

/// `prometheusHost`: where a server listens.
pub(super) static LISTEN_HOST: Format = Format {
    words: "a host of 1 to 64 letters, digits, ':', '.', '_', '+', '-'",
    check: |text| {
        let right = |byte: u8| byte.is_ascii_alphanumeric() || b":._+-".contains(&byte);
        when((1..=64).contains(&text.len()) && text.bytes().all(right))
    },
    samples: &["localhost", "10.0.0.1"],
};

/// `regexp`: a regular expression in Go's dialect, of which ours takes all that is in use.
pub(super) static REGEXP: Format = Format {
    words: "a regular expression",
    check: |text| {
        regex_syntax::Parser::new().parse(text).map(drop).map_err(|error| {
            let offset = match &error {
                regex_syntax::Error::Parse(error) => Some(error.span().start.offset),
                regex_syntax::Error::Translate(error) => Some(error.span().start.offset),
                _ => None,
            };
            Flaw { reason: Some("not a regular expression".to_string()), offset }
        })
    },
    samples: &["^(eth|bond).*", "a+"],
};

/// `IP:port`: an address, with a port where it is not the usual one.
pub(super) static ADDRESS_PORT: Format = Format {
    words: "an IP address, IPV4:PORT or [IPV6]:PORT",
    check: |text| {
        let with_port = text.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0);
        when(with_port || text.parse::<IpAddr>().is_ok())
    },
    samples: &["10.0.0.1", "10.0.0.1:1179", "[fd00::1]:1179"],
};

/// The schema's `cidr`.
pub(super) static PREFIX: Format = Format {
    words: "a prefix such as 10.0.0.0/24",
    check: |text| when(text.contains('/') && text.parse::<Cidr>().is_ok()),
    samples: &["10.0.0.0/24", "10.0.0.1/32", "fd00::/64"],
};

/// Whose a block of addresses is.
pub(super) static BLOCK_OWNER: Format = Format {
    words: "host:NAME or virtual:NAME, the name of letters, digits, '.', '-', '_'",
    check: |text| {
        let name = text.strip_prefix("host:").or_else(|| text.strip_prefix("virtual:")).unwrap_or_default();
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        when(!name.is_empty() && name.bytes().all(inside))
    },
    samples: &["host:node-1", "virtual:load-balancer"],
};

/// A prefix without host bits, in CIDR notation.
pub(super) static STRICT_CIDR: Format = Format {
    words: "a prefix such as 10.0.0.0/24, without host bits",
    check: |text| when(text.contains('/') && Cidr::parse_strict(text).is_ok()),
    samples: &["10.0.0.0/24", "fd00::/64"],
};

/// An IPv4 address or prefix, host bits allowed.
pub(super) static CIDR_V4: Format = Format {
    words: "an IPv4 address or prefix",
    check: |text| when(text.parse::<Cidr>().is_ok_and(|cidr| cidr.family() == Family::V4)),
    samples: &["10.0.0.0/24", "10.0.0.1"],
};

/// A bare IPv4 address.
pub(super) static IPV4: Format =
    Format { words: "an IPv4 address", check: |text| when(text.parse::<Ipv4Addr>().is_ok()), samples: &["10.0.0.1"] };

/// A bare IPv6 address.
pub(super) static IPV6: Format =
    Format { words: "an IPv6 address", check: |text| when(text.parse::<Ipv6Addr>().is_ok()), samples: &["fd00::1"] };

/// A BGP community: two numbers of 16 bits (RFC 1997) or three of 32 (RFC 8092).
pub(super) static COMMUNITY: Format = Format {
    words: "a community aa:nn with numbers to 65535, or aa:nn:mm with numbers to 4294967295",
    check: |text| {
        let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u32>().ok())?;
        let parts: Option<Vec<u32>> = text.split(':').map(number).collect();
        when(match parts.as_deref() {
            Some([first, second]) => *first <= 0xffff && *second <= 0xffff,
            Some([_, _, _]) => true,
            _ => false,
        })
    },
    samples: &["64512:1", "4200000000:1:2"],
};

/// `featureDetectOverride`: features of the host that are taken as given.
pub(super) static FEATURE_OVERRIDES: Format = Format {
    words: "NAME=true or NAME=false, separated by commas",
    check: |text| when(text.split(',').all(|item| is_assignment(item, |value| matches!(value, "true" | "false")))),
    samples: &["SNATFullyRandom=true,MASQFullyRandom=false"],
};

/// `keyValueList`.
pub(super) static KEY_VALUES: Format = Format {
    words: "NAME=VALUE, separated by commas",
    check: |text| when(text.split(',').all(|item| is_assignment(item, |value| !value.is_empty()))),
    samples: &["A=1,B=x"],
};

/// What the log prefix may consist of.
pub(super) static LOG_PREFIX: Format = Format {
    words: "letters, digits, '%', ':', space, '/', '_', '-'",
    check: |text| when(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%: /_-".contains(&byte))),
    samples: &["calico-packet", "calico %t %k"],
};

/// How many packets are logged in a time.
pub(super) static LOG_RATE: Format = Format {
    words: "a number from 1 to 9999 and a time, such as 10/second, 5/minute, 5/hour or 5/day",
    check: |text| {
        let Some((number, unit)) = text.split_once('/') else { return Err(Flaw::default()) };
        let plain = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
        let in_range = number.parse::<u16>().is_ok_and(|number| (1..=9999).contains(&number));
        when(plain && in_range && matches!(unit, "second" | "minute" | "hour" | "day"))
    },
    samples: &["10/second", "9999/day"],
};

/// OpenStack's region, part of label values.
pub(super) static REGION: Format = Format {
    words: "lower-case letters, digits and '-', at most 46 of them",
    check: |text| when(text.len() <= 46 && !text.contains('.') && is_subdomain(text)),
    samples: &["region-1"],
};

/// Parts of the agent that report their health.
pub(super) static HEALTH_NAME: Format = Format {
    words: "letters, digits, '_', '-' and spaces",
    check: |text| {
        when(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_ -".contains(&byte)))
    },
    samples: &["InternalDataplaneMainLoop"],
};

/// A time of the BPF connection table.
pub(super) static CONNTRACK_TIMEOUT: Format = Format {
    words: "Auto, or a whole number with one unit of h, m, s, ms, us",
    check: |text| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let unit = text.get(digits..).unwrap_or_default();
        when(text == "Auto" || (digits > 0 && matches!(unit, "h" | "m" | "s" | "ms" | "us")))
    },
    samples: &["Auto", "10s", "500ms"],
};

/// `mac`: an Ethernet address, or one of the longer ones that Go's parser takes.
pub(super) static MAC: Format = Format {
    words: "an Ethernet address such as ee:ee:ee:ee:ee:ee",
    check: |text| {
        let pairs = |mark: char, width: usize| {
            let parts: Vec<&str> = text.split(mark).collect();
            let hex = |part: &&str| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            matches!(parts.len() * width / 2, 6 | 8 | 20) && parts.iter().all(hex)
        };
        when(pairs(':', 2) || pairs('-', 2) || pairs('.', 4))
    },
    samples: &["ee:ee:ee:ee:ee:ee", "66-2e-2d-76-50-a3"],
};

/// `wireguardPublicKey`: 32 bytes in base64.
pub(super) static WIREGUARD_KEY: Format = Format {
    words: "32 bytes in base64",
    check: |text| when(STANDARD.decode(text).is_ok_and(|key| key.len() == 32)),
    samples: &["jlkVyQYooZYzI2wFfNhSZez5eWh44yfq1wKVjLvSXgY="],
};

/// What a condition is about: a name, with or without whose it is.
pub(super) static CONDITION_TYPE: Format = Format {
    words: "a name such as Ready or example.com/Ready, of at most 316 characters",
    check: |text| {
        let (owner, name) = text.rsplit_once('/').map_or((None, text), |(owner, name)| (Some(owner), name));
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = name.as_bytes();
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let named = edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inside);
        when(text.len() <= 316 && named && owner.is_none_or(is_subdomain))
    },
    samples: &["Ready", "example.com/Allocatable"],
};

/// Why a condition is as it is.
pub(super) static CONDITION_REASON: Format = Format {
    words: "a word of letters, digits, '_', ',', ':' that begins with a letter, of at most 1024 characters",
    check: |text| {
        let bytes = text.as_bytes();
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"_,:".contains(byte);
        let begins = bytes.first().is_some_and(u8::is_ascii_alphabetic);
        let ends = bytes.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        when(text.len() <= 1024 && begins && ends && bytes.iter().all(inside))
    },
    samples: &["OK", "CIDROverlap"],
};

/// The schema's `date-time`, as Go reads it: RFC 3339 with its letters in upper case.
pub(super) static DATE_TIME: Format = Format {
    words: "a time such as 2026-01-02T03:04:05Z",
    check: |text| when(!text.contains([' ', 't', 'z']) && Timestamp::parse_rfc3339(text).is_some()),
    samples: &["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.6+01:00"],
};

/// A duration, which has been read as one already, that is not negative.
pub(super) static FORWARD: Format = Format {
    words: "a duration that is not negative",
    check: |text| when(!text.starts_with('-')),
    samples: &["1m30s"],
};

/// `containerID`.
pub(super) static CONTAINER_ID: Format = Format {
    words: "letters, digits and '-', beginning and ending with a letter or digit",
    check: |text| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = text.as_bytes();
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        when(edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inside))
    },
    samples: &["1a2b3c", "A-1"],
};

fn is_assignment(item: &str, right: impl Fn(&str) -> bool) -> bool {
    let word =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    item.split_once('=').is_some_and(|(name, value)| word(name) && !value.contains('=') && right(value))
}

fn is_interface(text: &str, marks: &[u8]) -> bool {
    (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
}

fn is_port_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_its_samples_and_refuses_what_upstream_refuses() {
        let cases: [(&Format, &[&str]); 31] = [
            (&NAME, &["A", "-a", "a..b"]),
            (&SELECTOR, &["a ==", "global()"]),
            (&INTERFACE, &["", "eth 0", "0123456789abcdef", "eth*"]),
            (&INTERFACE_PATTERN, &["", "eth+"]),
            (&IGNORED_INTERFACE, &["*", "a b"]),
            (&INTERFACE_FILTER, &["eth*", ""]),
            (&PORT_NAME, &["8080", "-a", "a-", "a--b", "A", "0123456789abcdef"]),
            (&ADDRESS, &["10.0.0.0/24", "10.0.0", ""]),
            (&ADDRESS_PORT, &["10.0.0.1:0", "10.0.0.1:70000", "fd00::1:", "host:1"]),
            (&CIDR, &["10.0.0.0/33", "x", ""]),
            (&CIDR_V4, &["fd00::/64", ""]),
            (&BLOCK_OWNER, &["", "host:", "pod:a", "host:a b", "a"]),
            (&STRICT_CIDR, &["10.0.0.1/24", "10.0.0.1"]),
            (&IPV4, &["fd00::1", "10.0.0.1/32"]),
            (&IPV6, &["10.0.0.1"]),
            (&LISTEN_HOST, &["", "a/b"]),
            (&REGEXP, &["(", "a{2,1}", "[z-a]"]),
            (&COMMUNITY, &["1", "65536:1", "1:65536", "1:2:4294967296", "1:2:3:4", "+1:2", ":"]),
            (&FEATURE_OVERRIDES, &["A=yes", "A", "=true", "A=true,"]),
            (&KEY_VALUES, &["A", "A=", "=1"]),
            (&LOG_PREFIX, &["a;b", "ä"]),
            (&LOG_RATE, &["0/second", "10000/second", "5/week", "05/day", "5"]),
            (&REGION, &["a.b", "A", "a-"]),
            (&MAC, &["ee:ee:ee:ee:ee", "e:e:e:e:e:e", "gg:ee:ee:ee:ee:ee"]),
            (&WIREGUARD_KEY, &["", "abcd", "jlkVyQYooZYzI2wFfNhSZez5eWh44yfq1wKVjLvSXgY"]),
            (&CONDITION_TYPE, &["", "a/b/c", "A.b/Ready", "-a", "a-", "/a", "a b"]),
            (&CONDITION_REASON, &["", "1st", "a:", "not ready"]),
            (
                &DATE_TIME,
                &["yesterday", "2026-01-02", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z"],
            ),
            (&FORWARD, &["-1s"]),
            (&CONTAINER_ID, &["-a", "a_b", ""]),
            (&CONNTRACK_TIMEOUT, &["auto", "5", "s", "1m30s", "1.5s"]),
        ];
        for (format, wrong) in cases {
            for sample in format.samples {
                assert!((format.check)(sample).is_ok(), "{sample} is not {}", format.words);
            }
            for text in wrong {
                assert!((format.check)(text).is_err(), "{text:?} is {}", format.words);
            }
        }
    }
}
