//! The parameters of a graph, which are validated when they are made.

use siltstone_core::{Error, Result};

/// The range of `M`, the most links of a node on the layers above the lowest; the lowest layer has twice as many.
const M: (usize, usize) = (2, 128);
const EF: (usize, usize) = (1, 1 << 20);
const LAYERS: (usize, usize) = (1, 32);

/// The parameters of building and searching a graph, named as in the paper.
///
/// ```
/// use siltstone_ann::HnswParams;
///
/// let params = HnswParams::new(16, 200, 200, 16, 0)?;
/// assert_eq!(params, HnswParams::default());
/// let error = HnswParams::new(1, 200, 200, 16, 0).unwrap_err();
/// assert_eq!(error.to_string(), "m must be 2 to 128, got 1");
/// # Ok::<(), siltstone_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HnswParams {
    m: usize,
    ef_construction: usize,
    ef_search: usize,
    max_layer: usize,
    seed: u64,
}

impl Default for HnswParams {
    fn default() -> Self {
        Self {
            m: 16,
            ef_construction: 200,
            ef_search: 200,
            max_layer: 16,
            seed: 0,
        }
    }
}

impl HnswParams {
    /// `M` is 2 to 128, `efConstruction` and `ef` are 1 to 1,048,576, the number of layers is 1 to 32, and the seed
    /// of the layers is any number.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidArgument`, with the name, the bounds and the value.
    pub fn new(
        m: usize,
        ef_construction: usize,
        ef_search: usize,
        max_layer: usize,
        seed: u64,
    ) -> Result<Self> {
        check("m", m, M)?;
        check("ef_construction", ef_construction, EF)?;
        check("ef_search", ef_search, EF)?;
        check("max_layer", max_layer, LAYERS)?;
        Ok(Self {
            m,
            ef_construction,
            ef_search,
            max_layer,
            seed,
        })
    }

    /// `M`: the links that a new node makes on a layer; also `M_max`: the most links of a node above the lowest
    /// layer.
    #[must_use]
    pub fn m(self) -> usize {
        self.m
    }

    /// `M_max0`: the most links of a node on the lowest layer.
    #[must_use]
    pub fn m_max0(self) -> usize {
        2 * self.m
    }

    /// `efConstruction`: the number of candidates for the links of a new node.
    #[must_use]
    pub fn ef_construction(self) -> usize {
        self.ef_construction
    }

    /// `ef`: the number of candidates for an answer.
    #[must_use]
    pub fn ef_search(self) -> usize {
        self.ef_search
    }

    /// The most layers, with the lowest.
    #[must_use]
    pub fn max_layer(self) -> usize {
        self.max_layer
    }

    /// The seed that decides the layers of the nodes.
    #[must_use]
    pub fn seed(self) -> u64 {
        self.seed
    }

    /// The layer of a node, `l = floor(-ln(unif(0..1)) * mL)` with `mL = 1 / ln(M)`.
    ///
    /// The uniform number is a hash of the seed and the id, so a graph that is built again is the same.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "53 bits are a float64; a layer is small and not negative"
    )]
    pub(super) fn layer(self, id: u32) -> usize {
        let bits = mix(self.seed.wrapping_add(mix(u64::from(id) + 1)));
        let uniform = ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let layer = -uniform.ln() / (self.m as f64).ln();
        (layer as usize).min(self.max_layer - 1)
    }
}

fn check(name: &'static str, value: usize, (least, most): (usize, usize)) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("{name} must be {least} to {most}, got {value}");
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Err(Error::refused(name, value, message))
}

/// The mixer of `SplitMix64` (Steele, Lea and Flood 2014): every bit of the number affects every bit of the result.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_thin_out_by_m_and_depend_on_the_seed() {
        let params = HnswParams::default();
        let above = |layer: usize| (0..160_000).filter(|&id| params.layer(id) >= layer).count();
        assert!((9_500..10_500).contains(&above(1)), "{}", above(1)); // 160,000 / 16
        assert!((540..720).contains(&above(2)), "{}", above(2));
        let other = HnswParams::new(16, 200, 200, 16, 1).unwrap();
        assert!((0..1_000).any(|id| params.layer(id) != other.layer(id)));
        let flat = HnswParams::new(16, 200, 200, 1, 0).unwrap();
        assert!((0..1_000).all(|id| flat.layer(id) == 0));
    }
}
