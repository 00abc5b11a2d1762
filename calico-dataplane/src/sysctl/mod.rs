//! Per-interface settings below `/proc/sys/net`.
//!
//! The directory is opened once, by the thread that opens the backend: its entries are those of that thread's network namespace,
//! whichever thread writes later. A value that is there already is not written again, since some settings act when written.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use calico_core::table::InterfaceSetting;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

use crate::DataplaneError;

const ROOT: &str = "/proc/sys/net";
/// Settings are short texts.
const MAX_VALUE: u64 = 256;

/// The settings of one network namespace.
#[derive(Debug)]
pub(crate) struct Settings(OwnedFd);

impl Settings {
    pub(crate) fn open() -> Result<Self, DataplaneError> {
        let directory = open(ROOT, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_RDONLY, Mode::empty());
        directory.map(Self).map_err(|errno| DataplaneError::Kernel {
            operation: "open",
            object: ROOT.into(),
            source: errno.into(),
        })
    }

    /// Writes a setting unless it has the value already.
    pub(crate) fn write(&self, setting: &InterfaceSetting) -> Result<(), DataplaneError> {
        let path = relative_path(setting)?;
        let object = || format!("{ROOT}/{path}");
        let failed = |source: std::io::Error| match source.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT) => {
                DataplaneError::NoInterface { object: object(), interface: setting.interface.to_string() }
            }
            _ => DataplaneError::Kernel { operation: "write", object: object(), source },
        };
        let mut current = String::new();
        let read = self.file(&path, OFlag::O_RDONLY).and_then(|file| file.take(MAX_VALUE).read_to_string(&mut current));
        match read {
            Ok(_) if current.trim() == setting.value.trim() => return Ok(()),
            Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => return Err(failed(error)),
            // Some can be written only.
            _ => {}
        }
        let written = self.file(&path, OFlag::O_WRONLY).and_then(|mut file| file.write_all(setting.value.as_bytes()));
        written.map_err(failed)
    }

    fn file(&self, path: &str, flags: OFlag) -> std::io::Result<std::fs::File> {
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        Ok(openat(&self.0, path, flags, Mode::empty())?.into())
    }
}

/// The path below [`ROOT`]; an interface name cannot leave its directory (it holds no `/` and is neither `.` nor `..`).
fn relative_path(setting: &InterfaceSetting) -> Result<String, DataplaneError> {
    let template = setting.path.strip_prefix("net/").filter(|rest| {
        let parts = || rest.split('/');
        parts().all(|part| !matches!(part, "" | "." | "..")) && parts().filter(|part| *part == "{}").count() == 1
    });
    let template = template.ok_or_else(|| DataplaneError::Unwritable {
        object: format!("setting {:?}", setting.path),
        detail: "it is no path below net/ with one {} for the interface".into(),
    })?;
    Ok(template.replace("{}", setting.interface.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &'static str) -> Option<String> {
        let setting = InterfaceSetting { interface: "cali.1".parse().unwrap(), path, value: "1".into() };
        relative_path(&setting).ok()
    }

    #[test]
    fn paths_stay_below_the_interface() {
        assert_eq!(path("net/ipv4/conf/{}/proxy_arp").as_deref(), Some("ipv4/conf/cali.1/proxy_arp"));
        for bad in ["ipv4/conf/{}/x", "net/../{}/x", "net/ipv4/conf/all/x", "net//{}/x", "net/{}/{}", "net/ipv4/a{}/x"]
        {
            assert_eq!(path(bad), None, "{bad}");
        }
    }
}
