//! A file as memory. Besides the kernels in `simd/`, no other file of this crate has unsafe code.

#![expect(unsafe_code, reason = "a mapped file may be changed by others")]

use std::fs::File;
use std::io;

use memmap2::{Mmap, MmapOptions};

/// The bytes of `file`.
///
/// The caller maps only what [`Writer`](super::Writer) wrote: such a file has its name from the moment it is
/// whole, and nobody of this project opens it for writing again. It is replaced by another one under another
/// name, and deleted; what is mapped stays as it is meanwhile.
///
/// Who cuts such a file short from outside while it is mapped stops this process (SIGBUS), as he would by
/// overwriting a library that is in use.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: nobody of this project changes a file of this kind once it has its name, see above; what is read
    // from it is numbers, for which any bits are values, and every use of one is checked.
    unsafe { MmapOptions::new().map(file) }
}
