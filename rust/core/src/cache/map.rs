//! Maps a file into memory.

#![expect(unsafe_code, reason = "a mapped file may be changed by others")]

use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapOptions};

/// Maps `file` into memory.
///
/// The caller maps only files of [`Writer`](super::Writer). Such a file gets its name when it is complete, and this
/// project never opens it for writing again. It may be deleted, or replaced by a file of another name; the mapped bytes
/// stay as they are.
///
/// Another program that truncates a mapped file stops this process (SIGBUS), as it would by overwriting a shared
/// library that is in use.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: this project does not change such a file once it has its name, see above. Only numbers are read
    // from it, for which any bits are values, and every use of a number is checked.
    unsafe { MmapOptions::new().map(file) }
}
