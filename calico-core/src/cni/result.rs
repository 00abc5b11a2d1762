//! The result of an ADD, in one form inside and in that of every version outside.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CniError, ErrorCode, Version};
use crate::net::{Family, Mac};
use crate::resource::NodeAddress;

/// What an attachment consists of.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::exhaustive_structs, reason = "plugins build it with literals")]
pub struct CniResult {
    /// Interfaces that were made.
    pub interfaces: Vec<Interface>,
    /// Addresses that were assigned.
    pub ips: Vec<IpConfig>,
    /// Routes in the container.
    pub routes: Vec<Route>,
    /// Name resolution, passed through.
    pub dns: Option<Value>,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "plugins build it with literals")]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Ethernet address.
    pub mac: Option<Mac>,
    /// MTU, where one was configured.
    pub mtu: Option<u32>,
    /// Path of the container's namespace; empty for the host's end.
    pub sandbox: String,
}

/// An address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "plugins build it with literals")]
pub struct IpConfig {
    /// Index into `interfaces`.
    #[serde(default)]
    pub interface: Option<u32>,
    /// The address with its prefix length.
    pub address: NodeAddress,
    /// Gateway.
    #[serde(default)]
    pub gateway: Option<core::net::IpAddr>,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "plugins build it with literals")]
pub struct Route {
    /// Destination; host bits are kept, since upstream's IPAM plugin writes them.
    pub dst: NodeAddress,
    /// Next hop.
    #[serde(default)]
    pub gw: Option<core::net::IpAddr>,
}

impl CniResult {
    /// The document for standard output.
    pub fn to_json(&self, version: Version) -> Result<Value, CniError> {
        let mut document = Map::new();
        document.insert("cniVersion".into(), version.as_str().into());
        match version {
            Version::V0_1_0 | Version::V0_2_0 => self.add_families(&mut document)?,
            _ => self.add_lists(version, &mut document),
        }
        if let Some(dns) = &self.dns {
            document.insert("dns".into(), dns.clone());
        }
        Ok(Value::Object(document))
    }

    /// Reads a result that another plugin printed, or `prevResult`. One without a version is in `fallback`.
    pub fn from_json(document: &Value, fallback: Version) -> Result<Self, CniError> {
        let named = document.get("cniVersion").and_then(Value::as_str).filter(|version| !version.is_empty());
        let version = named.map_or(Ok(fallback), str::parse)?;
        let dns = document.get("dns").filter(|dns| dns.as_object().is_some_and(|dns| !dns.is_empty())).cloned();
        if version <= Version::V0_2_0 {
            return Ok(Self { dns, ..Self::from_families(document)? });
        }
        Ok(Self {
            interfaces: list(document, "interfaces")?,
            ips: list(document, "ips")?,
            routes: list(document, "routes")?,
            dns,
        })
    }

    fn add_lists(&self, version: Version, document: &mut Map<String, Value>) {
        let interfaces: Vec<_> = self.interfaces.iter().map(|interface| interface.to_json(version)).collect();
        let ips: Vec<_> = self.ips.iter().map(|ip| ip.to_json(version)).collect();
        let routes: Vec<_> = self.routes.iter().map(Route::to_json).collect();
        for (field, list) in [("interfaces", interfaces), ("ips", ips), ("routes", routes)] {
            if !list.is_empty() {
                document.insert(field.into(), list.into());
            }
        }
    }

    /// Before 0.3.0: the first address of each family, with the routes of that family.
    fn add_families(&self, document: &mut Map<String, Value>) -> Result<(), CniError> {
        for (field, family) in [("ip4", Family::V4), ("ip6", Family::V6)] {
            let Some(ip) = self.ips.iter().find(|ip| ip.address.family() == family) else { continue };
            let mut config = Map::new();
            config.insert("ip".into(), ip.address.to_string().into());
            if let Some(gateway) = ip.gateway {
                config.insert("gateway".into(), gateway.to_string().into());
            }
            let routes: Vec<_> =
                self.routes.iter().filter(|route| route.dst.family() == family).map(Route::to_json).collect();
            if !routes.is_empty() {
                config.insert("routes".into(), routes.into());
            }
            document.insert(field.into(), config.into());
        }
        if document.contains_key("ip4") || document.contains_key("ip6") {
            Ok(())
        } else {
            Err(CniError::new(ErrorCode::Internal, "cannot convert: no valid IP addresses"))
        }
    }

    fn from_families(document: &Value) -> Result<Self, CniError> {
        let mut result = Self::default();
        for config in ["ip4", "ip6"].into_iter().filter_map(|field| document.get(field)) {
            #[derive(Deserialize)]
            struct Config {
                ip: NodeAddress,
                #[serde(default)]
                gateway: Option<core::net::IpAddr>,
                #[serde(default)]
                routes: Vec<Route>,
            }
            let Config { ip, gateway, routes } = Config::deserialize(config).map_err(|error| bad("ip4/ip6", &error))?;
            result.ips.push(IpConfig { interface: None, address: ip, gateway });
            result.routes.extend(routes);
        }
        Ok(result)
    }
}

impl Interface {
    fn to_json(&self, version: Version) -> Value {
        let mut interface = Map::new();
        interface.insert("name".into(), self.name.as_str().into());
        if let Some(mac) = self.mac {
            interface.insert("mac".into(), mac.to_string().into());
        }
        if let Some(mtu) = self.mtu.filter(|_| version >= Version::V1_1_0) {
            interface.insert("mtu".into(), mtu.into());
        }
        if !self.sandbox.is_empty() {
            interface.insert("sandbox".into(), self.sandbox.as_str().into());
        }
        interface.into()
    }
}

impl IpConfig {
    fn to_json(&self, version: Version) -> Value {
        let mut ip = Map::new();
        if version < Version::V1_0_0 {
            let family = match self.address.family() {
                Family::V4 => "4",
                Family::V6 => "6",
            };
            ip.insert("version".into(), family.into());
        }
        if let Some(interface) = self.interface {
            ip.insert("interface".into(), interface.into());
        }
        ip.insert("address".into(), self.address.to_string().into());
        if let Some(gateway) = self.gateway {
            ip.insert("gateway".into(), gateway.to_string().into());
        }
        ip.into()
    }
}

impl Route {
    fn to_json(&self) -> Value {
        match self.gw {
            Some(gw) => json!({"dst": self.dst.to_string(), "gw": gw.to_string()}),
            None => json!({"dst": self.dst.to_string()}),
        }
    }
}

fn list<T: for<'de> Deserialize<'de>>(document: &Value, field: &str) -> Result<Vec<T>, CniError> {
    match document.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(list) => Vec::deserialize(list).map_err(|error| bad(field, &error)),
    }
}

fn bad(field: &str, error: &serde_json::Error) -> CniError {
    CniError::new(ErrorCode::Decode, format!("cannot read the result's {field}")).with_details(error.to_string())
}
