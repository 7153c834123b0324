//! Copies a store into a new file, while others may write to the store.

use std::fs;
use std::io::ErrorKind as Io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::check::examine;
use crate::sqlite::database::Database;
use crate::sqlite::files::Exclusive;
use crate::sqlite::{files, meta};
use crate::whole_file::{beside, sync_directory};

impl Database {
    /// Writes the committed state to the file `target`, and checks every row of the copy.
    ///
    /// Writers do not wait for it. The copy gets its name last, so a file of that name is complete.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreOpen`] where `target` exists or cannot be written, [`ErrorKind::StoreCorrupt`] where
    /// the store is damaged, [`ErrorKind::StoreBusy`] where another process is making `target`. After an error there is
    /// no file of that name.
    pub(crate) fn backup(&self, target: &Path) -> Result<()> {
        let _exclusive = Exclusive::wait(target, "make")?;
        if target.exists() {
            return Err(unwritten(target, "there is a store already"));
        }
        let part = beside(target, "-part");
        let outcome = self.write(&part, target);
        if outcome.is_err() {
            let _ = remove(&part); // if this fails, the rest is still no store, because of its name
        }
        outcome
    }

    /// Writes one state of the database to the file `name`, which must be new or empty.
    fn copy_into(&self, name: &str) -> Result<()> {
        self.with_reader(|connection| {
            connection.execute("VACUUM INTO ?1", [name])?;
            Ok(())
        })
    }

    fn write(&self, part: &Path, target: &Path) -> Result<()> {
        let failed = |error: std::io::Error| unwritten(target, &error.to_string()).caused_by(error);
        remove(part).map_err(failed)?; // left by a process that was killed
        let name = part
            .to_str()
            .ok_or_else(|| unwritten(target, "its name is no text"))?;
        files::make_file(part, files::mode_of(self.file()));
        if self.is_in_memory() {
            self.copy_into(name)?;
        } else {
            // A connection of its own, so that readers do not wait for this one.
            Self::open(self.file(), true, None, &[])?.copy_into(name)?;
        }
        let copy = rusqlite::Connection::open(part)?;
        // The copy is another store, and gets a mark of its own: a process must not mistake it for the store it has
        // open.
        meta::set(&copy, meta::LINEAGE, &meta::random(&copy)?)?;
        drop(copy);
        let damage = Self::open(part, true, None, &[])?
            .read(|transaction| Ok(examine(transaction).findings))?;
        if let Some(first) = damage.first() {
            let message = format!(
                "the store '{}' is damaged in {} places, so no copy was kept: {}; repair it first, or close it and \
                 copy its files as they are",
                self.file().display(),
                damage.len(),
                first.message
            );
            return Err(Error::new(ErrorKind::StoreCorrupt, message)
                .with("path", self.file().to_string_lossy().into_owned()));
        }
        let synced = fs::File::open(part).and_then(|file| file.sync_all());
        synced.map_err(failed)?;
        fs::rename(part, target).map_err(failed)?;
        sync_directory(target).map_err(failed)
    }
}

fn remove(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != Io::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn unwritten(target: &Path, why: &str) -> Error {
    let message = format!("cannot make a copy at '{}': {why}", target.display());
    Error::new(ErrorKind::StoreOpen, message).with("path", target.to_string_lossy().into_owned())
}
