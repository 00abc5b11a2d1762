//! Waking the watches of every process after a commit.
//!
//! A commit of this process wakes its watches directly. For the others the writer then writes one byte to the file beside the
//! database, `…-notify`, and their one inotify watch on the directory (128 instances are all that a machine has) sees it. The
//! write-ahead log alone would not do: SQLite writes there first and makes the commit visible only after the flush, without
//! touching any file again. It still counts as a hint, for writers that are not ours or die between commit and notice: the
//! watches then look again after growing pauses, a bounded number of times.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use inotify::{EventMask, Inotify, WatchMask};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::{beside, directory, file_name};

/// First pause before looking again after a write to the log that no notice followed. Flushes take less on most disks.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// The last look comes after 20 · 2⁶ ms.
const LOOKS: u32 = 7;

/// What wakes watches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ticks {
    /// Commits seen, each at least once: after a change the log may hold more.
    pub(super) commits: u64,
    /// How often listening for other processes has ended. A watch that began before must end, too.
    pub(super) losses: u64,
}

/// The waking of one store handle: its watches subscribe here.
pub(super) struct Wake {
    database: PathBuf,
    ticks: watch::Sender<Ticks>,
    /// Listens for other processes; started by the first watch.
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// The writer's end.
pub(super) struct LocalWake {
    ticks: watch::Sender<Ticks>,
    notice: PathBuf,
    file: Option<File>,
}

impl Wake {
    pub(super) fn new(database: &Path) -> Self {
        Self { database: database.to_owned(), ticks: watch::channel(Ticks::default()).0, listener: Mutex::new(None) }
    }

    pub(super) fn local(&self) -> LocalWake {
        LocalWake { ticks: self.ticks.clone(), notice: beside(&self.database, "-notify"), file: None }
    }

    /// A receiver that changes after commits, of this process or another. Must be called inside a tokio runtime with I/O.
    pub(super) fn subscribe(&self) -> std::io::Result<watch::Receiver<Ticks>> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        // A listener may have died with the runtime on which it was started.
        if listener.as_ref().is_none_or(JoinHandle::is_finished) {
            let inotify = Inotify::init()?;
            inotify.watches().add(
                directory(&self.database),
                WatchMask::MODIFY | WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVE,
            )?;
            let events = inotify.into_event_stream([0_u8; 4096])?;
            let name = |suffix| file_name(&self.database, suffix);
            let names = Names { database: name(""), notice: name("-notify"), log: name("-wal") };
            *listener = Some(tokio::spawn(listen(events, names, Listening(self.ticks.clone()))));
        }
        Ok(self.ticks.subscribe())
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            listener.abort();
        }
    }
}

impl LocalWake {
    /// A commit is visible.
    pub(super) fn committed(&mut self) {
        tick(&self.ticks);
        // Without the notice other processes still have the log to go by, only later: not worth failing a durable commit for.
        if self.file.is_none() {
            self.file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.notice).ok();
        }
        if let Some(file) = &self.file
            && file.write_at(b"\n", 0).is_err()
        {
            self.file = None;
        }
    }

    /// The directory may be another one now.
    pub(super) fn reopen(&mut self) {
        self.file = None;
    }
}

fn tick(ticks: &watch::Sender<Ticks>) {
    ticks.send_modify(|ticks| ticks.commits = ticks.commits.wrapping_add(1));
}

/// However listening ends, be it with its runtime, the watches must know.
struct Listening(watch::Sender<Ticks>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.send_modify(|ticks| ticks.losses = ticks.losses.wrapping_add(1));
    }
}

struct Names {
    database: OsString,
    notice: OsString,
    log: OsString,
}

/// Turns file events into ticks until the store is closed or inotify fails.
async fn listen(mut events: inotify::EventStream<[u8; 4096]>, names: Names, listening: Listening) {
    let created_or_gone = EventMask::CREATE | EventMask::DELETE | EventMask::MOVED_FROM | EventMask::MOVED_TO;
    let mut looks = 0;
    loop {
        let pause = FIRST_LOOK * 2_u32.saturating_pow(LOOKS.saturating_sub(looks));
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) if event.mask.contains(EventMask::Q_OVERFLOW) || event.name.as_ref() == Some(&names.notice) => {
                    looks = 0;
                    tick(&listening.0);
                }
                // The file was removed or replaced: whoever reads next finds out.
                Some(Ok(event)) if event.mask.intersects(created_or_gone) && event.name.as_ref() == Some(&names.database) => {
                    tick(&listening.0);
                }
                Some(Ok(event)) if event.name.as_ref() == Some(&names.log) => looks = LOOKS,
                Some(Ok(event)) if event.mask.contains(EventMask::IGNORED) => return,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            () = tokio::time::sleep(pause), if looks > 0 => {
                looks -= 1;
                tick(&listening.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ticked(ticks: &mut watch::Receiver<Ticks>, what: &str) {
        tokio::time::timeout(Duration::from_secs(30), ticks.changed()).await.expect(what).unwrap();
    }

    /// No database is involved: what wakes can only be the notice.
    #[tokio::test]
    async fn a_notice_reaches_other_handles_and_only_those_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let (database, other) = (directory.path().join("a.db"), directory.path().join("b.db"));
        let (reader, bystander) = (Wake::new(&database), Wake::new(&other));
        let mut reads = reader.subscribe().unwrap();
        let idle = bystander.subscribe().unwrap();
        let mut writer = Wake::new(&database).local();
        for _ in 0..3 {
            writer.committed();
            ticked(&mut reads, "a tick for each notice").await;
        }
        assert!(!idle.has_changed().unwrap());
    }

    #[tokio::test]
    async fn the_log_alone_is_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let reader = Wake::new(&directory.path().join("a.db"));
        let mut reads = reader.subscribe().unwrap();
        std::fs::write(directory.path().join("a.db-wal"), "frame").unwrap();
        for _ in 0..LOOKS {
            ticked(&mut reads, "looking again, as often as said").await;
        }
    }
}
