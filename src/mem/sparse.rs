//! Holes of sparse files: what nobody wrote need not be searched.
//!
//! GDB's core of a bare-metal target can be 275 GB long and 1 MB on disk. Its holes read as zeros.

use std::fs::{File, Metadata};

/// The most ranges that are worth telling apart.
#[cfg(target_os = "linux")]
const MANY: usize = 65_536;

/// Where the file holds bytes: offset and length, sorted. One range over all where nothing better is known.
#[cfg(target_os = "linux")]
pub(super) fn data_ranges(file: &File, meta: &Metadata) -> Vec<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let len = meta.len();
    if meta.blocks().saturating_mul(512) >= len {
        return vec![(0, len)];
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < len && ranges.len() < MANY {
        let start = match seek(file, at, libc::SEEK_DATA) {
            Ok(start) if start < len => start,
            // No data behind `at`.
            Err(libc::ENXIO) | Ok(_) => return ranges,
            Err(_) => return vec![(0, len)],
        };
        let Ok(end) = seek(file, start, libc::SEEK_HOLE) else { return vec![(0, len)] };
        if start < at || end <= start {
            return vec![(0, len)];
        }
        ranges.push((start, end.min(len).saturating_sub(start)));
        at = end;
    }
    if at < len { vec![(0, len)] } else { ranges }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn data_ranges(_: &File, meta: &Metadata) -> Vec<(u64, u64)> {
    vec![(0, meta.len())]
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "std has no SEEK_DATA")]
fn seek(file: &File, at: u64, whence: libc::c_int) -> Result<u64, libc::c_int> {
    use std::os::fd::AsRawFd;
    let at = libc::off64_t::try_from(at).map_err(|_| libc::EINVAL)?;
    // SAFETY: `lseek64` takes no pointers; the descriptor is open for as long as `file` is borrowed.
    let found = unsafe { libc::lseek64(file.as_raw_fd(), at, whence) };
    u64::try_from(found).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
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
        // A file system without holes tells one range over all.
        assert!(len <= 1 << 21 || len == 1 << 30, "{ranges:?}");
    }
}
