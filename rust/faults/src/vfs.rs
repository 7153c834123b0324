//! The VFS that wraps the real one. It passes all calls on, and reports them to the disk.
#![allow(
    unsafe_code,
    reason = "SQLite's file systems are tables of C functions"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once};

use rusqlite::ffi;

use crate::replay::SECTOR;
use crate::watch::{Call, Shared, under};

/// The previous default VFS.
static REAL: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(null_mut());

/// Makes this VFS the default of the process. Later calls do nothing.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the default VFS is a static of SQLite; the copy and its name are never freed.
        unsafe {
            assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
            let real = ffi::sqlite3_vfs_find(std::ptr::null());
            REAL.store(real, Ordering::SeqCst);
            let mut shim = *real;
            shim.pNext = null_mut();
            shim.zName = c"siltstone-faults".as_ptr();
            shim.szOsFile += c_int::try_from(size_of::<File>()).expect("a few words");
            shim.xOpen = Some(open);
            shim.xDelete = Some(delete);
            let shim = Box::leak(Box::new(shim));
            assert_eq!(ffi::sqlite3_vfs_register(shim, 1), ffi::SQLITE_OK);
        }
    });
}

/// Runs `sql` on the connection at that address, which must be open and not in use.
pub(crate) fn execute(connection: usize, sql: &str) {
    assert!(executes(connection, sql), "{sql:?}");
}

/// The same. False where the connection refuses it.
pub(crate) fn executes(connection: usize, sql: &str) -> bool {
    let sql = CString::new(sql).expect("SQL without NUL");
    // SAFETY: the disk forgets an address when its file is closed, and callers ensure that the connection is not in
    // use.
    let code = unsafe {
        let connection = connection as *mut ffi::sqlite3;
        ffi::sqlite3_exec(connection, sql.as_ptr(), None, null_mut(), null_mut())
    };
    code == ffi::SQLITE_OK
}

/// An open file in the memory that SQLite allocates. The file of the real VFS follows it.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    watched: *mut Watched,
}

/// A file of a directory with a disk.
struct Watched {
    disk: Arc<Shared>,
    number: u64,
    /// Whether its first sync also syncs its name. SQLite syncs the directory for journals and logs that it creates.
    names: bool,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2, // without memory-mapped reads
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Calls a method of the real file.
macro_rules! real {
    ($file:ident . $method:ident ( $($argument:expr),* )) => {{
        let file = real($file);
        ((*(*file).pMethods).$method.expect("a method of version 2"))(file $(, $argument)*)
    }};
}

unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` reserves room for both.
    unsafe { file.cast::<File>().add(1).cast() }
}

unsafe fn watched<'file>(file: *mut ffi::sqlite3_file) -> Option<&'file mut Watched> {
    // SAFETY: null, or from `open`, and one thread at a time uses a file.
    unsafe { (*file.cast::<File>()).watched.as_mut() }
}

/// About half of the bytes to be written, up to the end of a sector.
fn part(offset: i64, amount: i64) -> i64 {
    let sector = i64::try_from(SECTOR).expect("a small number");
    let end = (offset + amount / 2) / sector * sector;
    (end - offset).max(0)
}

fn size(offset: i64) -> u64 {
    u64::try_from(offset).expect("offsets are not negative")
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a file of `szOsFile` bytes and a NUL-terminated name.
    unsafe {
        (*file).pMethods = std::ptr::null();
        (*file.cast::<File>()).watched = null_mut();
        (*real(file)).pMethods = std::ptr::null();
        let disk = path(name).and_then(|path| under(path).map(|disk| (path, disk)));
        let made = disk.as_ref().is_some_and(|(path, _)| !path.exists());
        if made
            && flags & ffi::SQLITE_OPEN_CREATE != 0
            && let Some((_, disk)) = &disk
            && let Some(code) = disk.refuses(Call::Create)
        {
            return code;
        }
        let vfs = REAL.load(Ordering::SeqCst);
        let code = ((*vfs).xOpen.expect("xOpen"))(vfs, name, real(file), flags, out);
        if code != ffi::SQLITE_OK {
            return code;
        }
        if let Some((path, disk)) = disk {
            let names = made && flags & ffi::SQLITE_OPEN_MAIN_DB == 0;
            let number = disk.opened(&file_name(path), made);
            let watched = Watched {
                disk,
                number,
                names,
            };
            (*file.cast::<File>()).watched = Box::into_raw(Box::new(watched));
        }
        (*file).pMethods = &raw const METHODS;
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    directory: c_int,
) -> c_int {
    // SAFETY: the name is NUL-terminated.
    unsafe {
        let disk = path(name).and_then(|path| under(path).map(|disk| (path, disk)));
        if let Some((path, disk)) = &disk
            && path.exists()
            && let Some(code) = disk.refuses(Call::Delete)
        {
            return code;
        }
        let vfs = REAL.load(Ordering::SeqCst);
        let really = if disk.is_some() { 0 } else { directory };
        let code = ((*vfs).xDelete.expect("xDelete"))(vfs, name, really);
        if code == ffi::SQLITE_OK
            && let Some((path, disk)) = &disk
        {
            disk.deleted(&file_name(path), directory != 0);
        }
        code
    }
}

unsafe fn path<'name>(name: *const c_char) -> Option<&'name Path> {
    // SAFETY: the name is null for a temporary file, or NUL-terminated.
    let name = unsafe { (!name.is_null()).then(|| CStr::from_ptr(name)) }?;
    name.to_str().ok().map(Path::new)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().expect("a file has a name");
    name.to_string_lossy().into_owned()
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file is open, and not used again.
    unsafe {
        if let Some(watched) = watched(file) {
            watched.disk.closed(file as usize);
            drop(Box::from_raw((*file.cast::<File>()).watched));
            (*file.cast::<File>()).watched = null_mut();
        }
        real!(file.xClose())
    }
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xRead(buffer, amount, offset)) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: the buffer has `amount` bytes.
    unsafe {
        let Some(watched) = watched(file) else {
            return real!(file.xWrite(buffer, amount, offset));
        };
        let refused = watched.disk.refuses(Call::Write);
        let amount = match refused {
            // A failed write has still written a part: whole sectors.
            Some(_) => c_int::try_from(part(offset, i64::from(amount))).expect("less than all"),
            None => amount,
        };
        let code = real!(file.xWrite(buffer, amount, offset));
        if code == ffi::SQLITE_OK {
            let length = usize::try_from(amount).expect("an amount is not negative");
            let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), length);
            watched.disk.wrote(watched.number, size(offset), bytes);
        }
        refused.unwrap_or(code)
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let Some(watched) = watched(file) else {
            return real!(file.xTruncate(length));
        };
        if let Some(code) = watched.disk.refuses(Call::Truncate) {
            return code;
        }
        let code = real!(file.xTruncate(length));
        if code == ffi::SQLITE_OK {
            watched.disk.truncated(watched.number, size(length));
        }
        code
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let Some(watched) = watched(file) else {
            return real!(file.xSync(flags));
        };
        let time = watched.disk.inner.lock().sync_time;
        std::thread::sleep(time);
        if let Some(code) = watched.disk.refuses(Call::Sync) {
            watched.disk.sync_failed(watched.number);
            return code;
        }
        // Tests lose no real power, so the bytes need not reach the real disk.
        watched.disk.synced(watched.number, watched.names);
        watched.names = false;
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xFileSize(out)) }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xLock(level)) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xUnlock(level)) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xCheckReservedLock(out)) }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    code: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: with this code the argument points to the connection. Otherwise the arguments are passed on unchanged.
    unsafe {
        if code == ffi::SQLITE_FCNTL_PDB
            && let Some(watched) = watched(file)
        {
            let connection = *argument.cast::<*mut ffi::sqlite3>();
            watched.disk.connected(file as usize, connection as usize);
        }
        real!(file.xFileControl(code, argument))
    }
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xSectorSize()) }
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the call is passed on. The removed capability would bypass the methods above.
    unsafe { real!(file.xDeviceCharacteristics()) & !ffi::SQLITE_IOCAP_BATCH_ATOMIC }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    length: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe {
        if extend != 0
            && let Some(watched) = watched(file)
            && let Some(code) = watched.disk.refuses(Call::Share)
        {
            return code;
        }
        real!(file.xShmMap(region, length, extend, out))
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xShmLock(offset, count, flags)) }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xShmBarrier()) }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: the arguments are passed on unchanged.
    unsafe { real!(file.xShmUnmap(delete)) }
}
