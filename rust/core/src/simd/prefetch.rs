//! Prefetches memory: the processor loads it while it goes on with its work.

#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "the instruction that asks for memory has no safe form"
    )
)]

/// Bytes of a line of the processor's cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// The most lines that are prefetched; behind them the processor prefetches by itself.
#[cfg(target_arch = "x86_64")]
const FETCHED: usize = 16;

/// Prefetches the first lines of `values`, up to 1 KB.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let (start, bytes) = (values.as_ptr().cast::<i8>(), size_of_val(values));
        for line in 0..bytes.div_ceil(LINE).min(FETCHED) {
            // SAFETY: a hint: it reads nothing that a program can see, and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}
