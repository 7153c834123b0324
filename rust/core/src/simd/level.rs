//! The instruction set that a kernel may use; it is detected once, when the first kernel runs.

use std::cell::Cell;
use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::sync::OnceLock;

/// The environment variable that forces a path: `portable` or `avx2`. An empty value counts as unset.
pub const VARIABLE: &str = "SILTSTONE_SIMD";

/// A set of instructions that this processor has. There is no value for instructions that it lacks, so a kernel
/// that is given a level may use all of it.
///
/// ```
/// use siltstone_core::simd::Level;
///
/// assert_eq!(Level::all().next(), Some(Level::PORTABLE)); // every machine has it
/// assert!(Level::all().any(|level| level == Level::current()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(Path);

/// The paths that kernels are written for, each faster than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// The baseline of the target: the compiled scalar counterpart, or SSE2 where that is much faster and part of
    /// the baseline.
    Portable,
    /// `avx2`, `fma`, `f16c`, `bmi1`, `bmi2`, `lzcnt`, `popcnt`: x86-64-v3.
    Avx2,
}

impl Path {
    const ALL: [Self; 2] = [Self::Portable, Self::Avx2];

    fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn is_supported(self) -> bool {
        macro_rules! has {
            ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
        }
        match self {
            Self::Portable => true,
            Self::Avx2 => has!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_supported(self) -> bool {
        self == Self::Portable
    }
}

thread_local! {
    /// The level that [`Level::run`] forces on this thread.
    static FORCED: Cell<Option<Level>> = const { Cell::new(None) };
}

impl Level {
    /// Only the baseline of the target.
    pub const PORTABLE: Self = Self(Path::Portable);

    /// Every level that this processor has, the slowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        let supported = |path: &Path| path.is_supported();
        Path::ALL.into_iter().filter(supported).map(Self)
    }

    /// The level of that name, as the environment variable spells it.
    ///
    /// # Errors
    ///
    /// If there is no level of that name, or this processor lacks it.
    pub fn named(name: &str) -> Result<Self, Unsupported> {
        let refuse = |reason| Unsupported {
            value: name.to_owned(),
            reason,
        };
        let path = Path::ALL.into_iter().find(|path| path.name() == name);
        let path = path.ok_or_else(|| refuse(Reason::Unknown))?;
        if path.is_supported() {
            Ok(Self(path))
        } else {
            Err(refuse(Reason::Lacking))
        }
    }

    /// The level that kernels use on this thread: the best of the processor, or the one that the environment sets.
    ///
    /// If the environment sets an impossible level, [`check`] returns the error, and this is portable.
    #[must_use]
    pub fn current() -> Self {
        let forced = FORCED.get();
        forced.unwrap_or_else(|| *chosen().as_ref().unwrap_or(&Self::PORTABLE))
    }

    /// Runs `work` with this as the current level of the thread, for tests and measurements. Work that is handed to
    /// other threads does not use it.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<Level>);
        impl Drop for Restore {
            fn drop(&mut self) {
                FORCED.set(self.0);
            }
        }
        let _restore = Restore(FORCED.replace(Some(self)));
        work()
    }

    /// Its name, as the environment variable spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The path that a kernel takes.
    #[inline]
    #[must_use]
    pub fn path(self) -> Path {
        self.0
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Checks that the environment sets a possible level. It is read once in a process.
///
/// # Errors
///
/// If [`VARIABLE`] names an unknown path, or one that this processor lacks.
pub fn check() -> Result<(), &'static Unsupported> {
    chosen().as_ref().map(|_| ())
}

/// The error for a level that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    value: String,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Unknown,
    Lacking,
}

impl Unsupported {
    /// The name that was asked for.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.escape_debug();
        match self.reason {
            Reason::Unknown => {
                let names = Path::ALL.map(Path::name).join("', '");
                write!(
                    formatter,
                    "{VARIABLE} must be one of '{names}', got '{value}'"
                )
            }
            Reason::Lacking => {
                let names: Vec<_> = Level::all().map(Level::name).collect();
                let names = names.join("', '");
                write!(
                    formatter,
                    "{VARIABLE} is '{value}', and this processor has '{names}' alone"
                )
            }
        }
    }
}

impl Error for Unsupported {}

fn chosen() -> &'static Result<Level, Unsupported> {
    static CHOSEN: OnceLock<Result<Level, Unsupported>> = OnceLock::new();
    CHOSEN.get_or_init(|| choose(env::var_os(VARIABLE).as_deref()))
}

fn choose(asked: Option<&OsStr>) -> Result<Level, Unsupported> {
    match asked.filter(|asked| !asked.is_empty()) {
        Some(asked) => Level::named(&asked.to_string_lossy()),
        None => Ok(Level::all().last().unwrap_or(Level::PORTABLE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_taken_unless_one_is_asked_for() {
        let best = Level::all().max().unwrap();
        assert_eq!(choose(None), Ok(best));
        assert_eq!(choose(Some(OsStr::new(""))), Ok(best));
        for level in Level::all() {
            assert_eq!(choose(Some(OsStr::new(level.name()))), Ok(level));
            assert!(level.path().is_supported());
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = choose(Some(OsStr::new("sse9"))).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "SILTSTONE_SIMD must be one of 'portable', 'avx2', got 'sse9'"
        );
        assert_eq!(refused.value(), "sse9");
        for path in Path::ALL.into_iter().filter(|path| !path.is_supported()) {
            let refused = Level::named(path.name()).unwrap_err().to_string();
            assert!(
                refused.contains("this processor has 'portable'"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_level_is_forced_on_its_thread_for_as_long_as_the_work_takes() {
        let before = Level::current();
        for level in Level::all() {
            assert_eq!(level.run(Level::current), level);
            let nested = level.run(|| (Level::PORTABLE.run(Level::current), Level::current()));
            assert_eq!(nested, (Level::PORTABLE, level));
        }
        let failed = std::panic::catch_unwind(|| Level::PORTABLE.run(|| panic!("on purpose")));
        assert!(failed.is_err());
        assert_eq!(Level::current(), before);
    }
}
