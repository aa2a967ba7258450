//! Files as memory maps, and the holes of sparse files.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use memmap2::Mmap;

use super::system::{Guard, guard};

/// A file, mapped read-only. On Unix a file that is cut short while it is mapped ends the program with one sentence
/// and status 2: there is no way back from such a read.
pub struct Map {
    // Before `map`: fields are dropped in this order, and the address range may be another's at once.
    _guard: Option<Guard>,
    map: Mmap,
}

impl Map {
    /// Maps the whole of `file`; `path` names it in the sentence above.
    ///
    /// # Errors
    /// Where its file system has no maps.
    #[allow(unsafe_code, reason = "a memory map can be made in no other way")]
    pub fn new(file: &File, path: &Path) -> io::Result<Self> {
        // SAFETY: the map is private to us and read-only. Another process may still write the file, so its bytes
        // can change between two reads; we only ever read plain bytes, for which every value is valid, and bound
        // every number taken from them where it is used. If the file is cut short a read faults instead of
        // returning; on Unix `sigbus` ends the process then. Windows cuts no file short that is mapped.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self { _guard: guard(map.as_ptr().addr(), map.len(), path), map })
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// The most ranges that are kept apart.
#[cfg(target_os = "linux")]
const MAX_RANGES: usize = 65_536;

/// Where the file holds bytes: offset and length, sorted. One range over all where nothing better is known.
///
/// GDB's core of a bare-metal target can be 275 GB long and 1 MB on disk. Its holes read as zeros, and what was never written
/// need not be searched.
#[cfg(target_os = "linux")]
pub fn data_ranges(file: &File, meta: &Metadata) -> Vec<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    use std::os::unix::fs::MetadataExt;
    let len = meta.len();
    if meta.blocks() >= len.div_ceil(512) {
        return vec![(0, len)];
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < len && ranges.len() < MAX_RANGES {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < len => start,
            // No data after `at`.
            Err(Errno::NXIO) | Ok(_) => return ranges,
            Err(_) => return vec![(0, len)],
        };
        let Ok(end) = seek(file, SeekFrom::Hole(start)) else { return vec![(0, len)] };
        if start < at || end <= start {
            return vec![(0, len)];
        }
        // `start` is below both.
        ranges.push((start, end.min(len).saturating_sub(start)));
        at = end;
    }
    if at < len { vec![(0, len)] } else { ranges }
}

/// One range over all: where a sparse file holds bytes is asked on Linux alone.
#[cfg(not(target_os = "linux"))]
pub fn data_ranges(_: &File, meta: &Metadata) -> Vec<(u64, u64)> {
    vec![(0, meta.len())]
}
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::FileExt;

    #[test]
    fn holes_are_not_data() {
        let path = std::env::temp_dir().join(format!("tx-trace-sparse-{}", std::process::id()));
        let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        file.sync_all().unwrap();
        let ranges = super::data_ranges(&file, &file.metadata().unwrap());
        std::fs::remove_file(&path).unwrap();
        let (start, len) = ranges[0];
        assert_eq!(ranges.len(), 1);
        assert!(start <= 1 << 20 && start + len >= (1 << 20) + 4096, "{ranges:?}");
        // A file system without holes gives one range over all.
        assert!(len <= 1 << 21 || len == 1 << 30, "{ranges:?}");
    }
}
