//! Per-interface settings below `/proc/sys/net`.
//!
//! Four directories are opened once, by the thread that opens the backend: their entries are those of that thread's network
//! namespace, whichever thread writes later. (This holds for these directories, not for those above them, which every namespace
//! shares.) A value that is there already is not written again, since some settings act when written.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use calico_core::table::InterfaceSetting;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

use crate::DataplaneError;

const ROOT: &str = "/proc/sys";
/// Where interfaces have settings; the IPv6 ones are missing from a kernel without it.
const DIRECTORIES: [&str; 4] = ["net/ipv4/conf", "net/ipv4/neigh", "net/ipv6/conf", "net/ipv6/neigh"];
/// Settings are short texts.
const MAX_VALUE: usize = 256;

/// The settings of one network namespace.
#[derive(Debug)]
pub(crate) struct Settings(Vec<(&'static str, OwnedFd)>);

impl Settings {
    pub(crate) fn open() -> Result<Self, DataplaneError> {
        let mut directories = Vec::new();
        for directory in DIRECTORIES {
            let path = format!("{ROOT}/{directory}");
            match open(path.as_str(), OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_RDONLY, Mode::empty()) {
                Ok(opened) => directories.push((directory, opened)),
                Err(Errno::ENOENT) if directory.starts_with("net/ipv6") => {}
                Err(errno) => {
                    return Err(DataplaneError::Kernel { operation: "open", object: path, source: errno.into() });
                }
            }
        }
        Ok(Self(directories))
    }

    /// Whether IPv6 packets are forwarded at all; none where that cannot be read.
    pub(crate) fn forwards_ipv6(&self) -> Option<bool> {
        let (_, directory) = self.0.iter().find(|(directory, _)| *directory == "net/ipv6/conf")?;
        let all = file(directory, "all/forwarding", OFlag::O_RDONLY).ok()?;
        Some(!holds(&all, "0"))
    }

    /// Writes a setting unless it has the value already.
    pub(crate) fn write(&self, setting: &InterfaceSetting) -> Result<(), DataplaneError> {
        let place = place(setting)?;
        let Some((_, directory)) = self.0.iter().find(|(directory, _)| *directory == place.directory) else {
            return Err(DataplaneError::Unsupported {
                feature: format!("the setting {}", setting.path),
                advice: "boot it with IPv6".into(),
            });
        };
        let failed = |source: std::io::Error| {
            let object = format!("{ROOT}/{}/{}", place.directory, place.entry);
            match source.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOENT) => DataplaneError::NoInterface { object, interface: setting.interface.to_string() },
                _ => DataplaneError::Kernel { operation: "write", object, source },
            }
        };
        change(directory, &place.entry, setting.value.trim()).map_err(failed)
    }
}

/// One look-up for both where the file can be read and written, which nearly all can.
fn change(directory: &OwnedFd, entry: &str, value: &str) -> std::io::Result<()> {
    match file(directory, entry, OFlag::O_RDWR) {
        Ok(both) if holds(&both, value) => Ok(()),
        Ok(both) => write(&both, value),
        Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => Err(error),
        // Some can be written only, and where none can, it may still be as it should be.
        Err(_) => match file(directory, entry, OFlag::O_RDONLY) {
            Ok(file) if holds(&file, value) => Ok(()),
            _ => write(&file(directory, entry, OFlag::O_WRONLY)?, value),
        },
    }
}

/// The kernel gives all of it at once.
fn holds(file: &File, value: &str) -> bool {
    let mut current = [0; MAX_VALUE];
    let read = file.read_at(&mut current, 0).ok().and_then(|length| current.get(..length));
    read.is_some_and(|current| current.trim_ascii() == value.as_bytes())
}

/// The kernel takes a value at the beginning of a file only.
fn write(file: &File, value: &str) -> std::io::Result<()> {
    file.write_all_at(value.as_bytes(), 0)
}

fn file(directory: &OwnedFd, entry: &str, flags: OFlag) -> std::io::Result<File> {
    let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    Ok(openat(directory, entry, flags, Mode::empty())?.into())
}

/// One of [`DIRECTORIES`], and the path from there.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    directory: &'static str,
    entry: String,
}

/// An interface name cannot leave the directory: it holds no `/` and is neither `.` nor `..`.
fn place(setting: &InterfaceSetting) -> Result<Place, DataplaneError> {
    let place = DIRECTORIES.into_iter().find_map(|directory| {
        let name = setting.path.strip_prefix(directory)?.strip_prefix("/{}/")?;
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.is_empty();
        plain.then(|| Place { directory, entry: format!("{}/{name}", setting.interface) })
    });
    place.ok_or_else(|| DataplaneError::Unwritable {
        object: format!("setting {:?}", setting.path),
        detail: "it is no path net/ipv4|ipv6/conf|neigh/{}/NAME".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &'static str) -> Option<String> {
        let setting = InterfaceSetting { interface: "cali.1".parse().unwrap(), path, value: "1".into() };
        place(&setting).ok().map(|place| format!("{} {}", place.directory, place.entry))
    }

    #[test]
    fn whether_ipv6_is_forwarded_is_read_in_the_own_namespace() {
        let work = || {
            let settings = Settings::open().unwrap();
            for (value, forwards) in [("0", false), ("1", true), ("0", false)] {
                std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", value).unwrap();
                assert_eq!(settings.forwards_ipv6(), Some(forwards));
            }
        };
        crate::testing::netns::scratch().run(work).unwrap();
    }

    #[test]
    fn paths_stay_below_the_interface() {
        assert_eq!(entry("net/ipv4/conf/{}/proxy_arp").as_deref(), Some("net/ipv4/conf cali.1/proxy_arp"));
        for bad in [
            "ipv4/conf/{}/x",
            "net/../{}/x",
            "net/ipv4/conf/all/x",
            "net/ipv4/conf/{}/",
            "net/ipv4/conf/{}/../all/x",
            "net/ipv4/a{}/x",
        ] {
            assert_eq!(entry(bad), None, "{bad}");
        }
    }
}
