//! XXH3-64 for words of up to 16 bytes: the three code paths for 1 to 3, 4 to 8, and 9 to 16 bytes.
//!
//! Seed 0, with the secret of the specification.

/// The bytes that are read at once from a word: so many must be readable from its first byte on.
const READ: usize = 8;

/// The hash of a word of 1 to 3 bytes.
///
/// # Panics
///
/// If fewer than [`READ`] bytes are readable from its start on, which is a bug of the caller. The same holds for
/// the functions below.
#[inline]
#[must_use]
pub(crate) fn hash_up_to_three(bytes: &[u8], start: usize, length: usize) -> u64 {
    up_to_three(eight(bytes, start), length as u64)
}

/// The hash of a word of 4 to 8 bytes.
#[inline]
#[must_use]
pub(crate) fn hash_up_to_eight(bytes: &[u8], start: usize, length: usize) -> u64 {
    up_to_eight(eight(bytes, start), length as u64)
}

/// The hash of a word of 9 to 16 bytes.
#[inline]
#[must_use]
pub(crate) fn hash_up_to_sixteen(bytes: &[u8], start: usize, length: usize) -> u64 {
    let (head, tail) = (eight(bytes, start), eight(bytes, start + length - READ));
    up_to_sixteen(head, tail, length as u64)
}

#[inline]
fn eight(bytes: &[u8], start: usize) -> u64 {
    let eight = bytes[start..].first_chunk();
    u64::from_le_bytes(*eight.expect("eight bytes follow"))
}

/// Eight bytes of the secret, from the byte `at` on.
const fn secret(at: usize) -> u64 {
    /// The first 56 bytes of the secret.
    const SECRET: [u8; 56] = [
        0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad,
        0x1c, 0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3,
        0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc,
        0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e,
    ];
    let mut value = 0;
    let mut byte = 8;
    while byte > 0 {
        byte -= 1;
        value = value << 8 | SECRET[at + byte] as u64;
    }
    value
}

/// `head` without its first `bytes` bytes, which are fewer than eight.
#[inline]
fn shifted(head: u64, bytes: u64) -> u64 {
    head >> (bytes.wrapping_mul(8) % 64)
}

#[inline]
fn up_to_three(head: u64, length: u64) -> u64 {
    const FLIP: u64 = (secret(0) ^ secret(0) >> 32) & 0xFFFF_FFFF;
    let first = head & 0xFF;
    let middle = shifted(head, length >> 1) & 0xFF;
    let last = shifted(head, length.wrapping_sub(1)) & 0xFF;
    let mut hash = (first << 16 | middle << 24 | last | length << 8) ^ FLIP;
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0x1656_67B1_9E37_79F9);
    hash ^ hash >> 32
}

#[inline]
fn up_to_eight(head: u64, length: u64) -> u64 {
    const FLIP: u64 = secret(8) ^ secret(16);
    const FACTOR: u64 = 0x9FB2_1C65_1E98_DF25;
    let last = shifted(head, length.wrapping_sub(4)) & 0xFFFF_FFFF;
    let mut hash = last.wrapping_add(head << 32) ^ FLIP;
    hash ^= hash.rotate_left(49) ^ hash.rotate_left(24);
    hash = hash.wrapping_mul(FACTOR);
    hash ^= (hash >> 35).wrapping_add(length);
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> 28
}

#[inline]
fn up_to_sixteen(head: u64, tail: u64, length: u64) -> u64 {
    const LOW: u64 = secret(24) ^ secret(32);
    const HIGH: u64 = secret(40) ^ secret(48);
    let (low, high) = (head ^ LOW, tail ^ HIGH);
    let sum = length.wrapping_add(low.swap_bytes()).wrapping_add(high);
    let product = u128::from(low) * u128::from(high);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let folded = product as u64 ^ (product >> 64) as u64;
    let mut hash = sum.wrapping_add(folded);
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(0x1656_6791_9E37_79F9);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    proptest! {
        #[test]
        fn each_way_hashes_what_xxh3_hashes(bytes in vec(any::<u8>(), 40), start in 0_usize..20) {
            for length in 1..=16 {
                let hash = match length {
                    1..=3 => hash_up_to_three(&bytes, start, length),
                    4..=8 => hash_up_to_eight(&bytes, start, length),
                    _ => hash_up_to_sixteen(&bytes, start, length),
                };
                prop_assert_eq!(hash, xxh3_64(&bytes[start..start + length]), "{} bytes", length);
            }
        }
    }
}
