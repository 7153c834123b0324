//! Irregular forms of English words, which no rule leads back to their base.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// Form and base, in ascending order of form. Frozen: part of the definition of `lexical-6`.
///
/// A form that is its own base (`let`, `cut`) needs no row. Some bases are a synonym (`father` has the base `dad`),
/// since people may ask with one word and answer with the other.
#[rustfmt::skip]
const IRREGULAR: [(&str, &str); 173] = [
    ("am", "be"), ("are", "be"), ("ate", "eat"), ("became", "become"), ("been", "be"),
    ("began", "begin"), ("begun", "begin"), ("best", "good"), ("better", "good"),
    ("bit", "bite"), ("bitten", "bite"), ("blew", "blow"), ("blown", "blow"),
    ("bought", "buy"), ("broke", "break"), ("broken", "break"), ("brought", "bring"),
    ("built", "build"), ("burnt", "burn"), ("came", "come"), ("caught", "catch"),
    ("children", "child"), ("chose", "choose"), ("chosen", "choose"), ("daddy", "dad"),
    ("dealt", "deal"), ("did", "do"), ("does", "do"), ("done", "do"), ("drank", "drink"),
    ("drawn", "draw"), ("dreamt", "dream"), ("drew", "draw"), ("driven", "drive"),
    ("drove", "drive"), ("drunk", "drink"), ("dug", "dig"), ("eaten", "eat"),
    ("fallen", "fall"), ("father", "dad"), ("fed", "feed"), ("feet", "foot"), ("fell", "fall"),
    ("felt", "feel"), ("flew", "fly"), ("flown", "fly"), ("forgave", "forgive"),
    ("forgiven", "forgive"), ("forgot", "forget"), ("forgotten", "forget"),
    ("fought", "fight"), ("found", "find"), ("froze", "freeze"), ("frozen", "freeze"),
    ("gave", "give"), ("given", "give"), ("gone", "go"), ("got", "get"), ("gotten", "get"),
    ("grew", "grow"), ("grown", "grow"), ("had", "have"), ("halves", "half"), ("has", "have"),
    ("heard", "hear"), ("held", "hold"), ("hid", "hide"), ("hidden", "hide"), ("hung", "hang"),
    ("is", "be"), ("kept", "keep"), ("kids", "kid"), ("knew", "know"), ("knives", "knife"),
    ("known", "know"), ("laid", "lay"), ("lain", "lie"), ("lay", "lie"), ("learnt", "learn"),
    ("leaves", "leaf"), ("led", "lead"), ("left", "leave"), ("lent", "lend"), ("lit", "light"),
    ("lives", "life"), ("lost", "lose"), ("made", "make"), ("meant", "mean"), ("men", "man"),
    ("met", "meet"), ("mice", "mouse"), ("mommy", "mom"), ("mother", "mom"), ("mum", "mom"),
    ("paid", "pay"), ("people", "person"), ("photograph", "photo"), ("photos", "photo"),
    ("pic", "photo"), ("pics", "photo"), ("picture", "photo"), ("pictures", "photo"),
    ("proven", "prove"), ("ran", "run"), ("rang", "ring"), ("ridden", "ride"),
    ("risen", "rise"), ("rode", "ride"), ("rose", "rise"), ("rung", "ring"), ("said", "say"),
    ("sang", "sing"), ("sank", "sink"), ("sat", "sit"), ("saw", "see"), ("seen", "see"),
    ("sent", "send"), ("sewn", "sew"), ("shaken", "shake"), ("shone", "shine"),
    ("shook", "shake"), ("shot", "shoot"), ("shown", "show"), ("shrank", "shrink"),
    ("shrunk", "shrink"), ("slept", "sleep"), ("slid", "slide"), ("sold", "sell"),
    ("sought", "seek"), ("spent", "spend"), ("spoke", "speak"), ("spoken", "speak"),
    ("stole", "steal"), ("stolen", "steal"), ("stood", "stand"), ("struck", "strike"),
    ("stuck", "stick"), ("sung", "sing"), ("sunk", "sink"), ("swam", "swim"),
    ("swept", "sweep"), ("swore", "swear"), ("sworn", "swear"), ("swum", "swim"),
    ("taken", "take"), ("taught", "teach"), ("teeth", "tooth"), ("thought", "think"),
    ("threw", "throw"), ("thrown", "throw"), ("told", "tell"), ("took", "take"),
    ("tore", "tear"), ("torn", "tear"), ("understood", "understand"), ("was", "be"),
    ("went", "go"), ("were", "be"), ("wives", "wife"), ("woke", "wake"), ("woken", "wake"),
    ("wolves", "wolf"), ("women", "woman"), ("won", "win"), ("wore", "wear"), ("worn", "wear"),
    ("worse", "bad"), ("worst", "bad"), ("wound", "wind"), ("wove", "weave"),
    ("woven", "weave"), ("written", "write"), ("wrote", "write"),
];

/// The length of the longest form with an `s`, in bytes.
const LONGEST: usize = 11;

/// The base of a word that is an irregular form.
///
/// A form with an `s` added has the same base, so `mothers` matches `mother`.
pub(super) fn base(word: &[u8]) -> Option<&'static str> {
    static KNOWN: LazyLock<Forms> = LazyLock::new(Forms::of);
    if word.len() > LONGEST {
        return None;
    }
    let known = &*KNOWN;
    if known.last[word.len()] & last(word) == 0 {
        return None;
    }
    let base = |word: &[u8]| known.bases.get(word).copied();
    let singular = || word.strip_suffix(b"s").and_then(base);
    base(word).or_else(singular)
}

/// All forms.
struct Forms {
    bases: FxHashMap<&'static [u8], &'static str>,
    /// For each length, the last letters of the forms with and without an `s`. Most words have another one.
    last: [u32; LONGEST + 1],
}

impl Forms {
    fn of() -> Self {
        let mut forms = Self {
            bases: FxHashMap::default(),
            last: [0; LONGEST + 1],
        };
        for (form, base) in IRREGULAR {
            forms.bases.insert(form.as_bytes(), base);
            forms.last[form.len()] |= last(form.as_bytes());
            forms.last[form.len() + 1] |= last(b"s");
        }
        forms
    }
}

/// A bit for the last letter of a word.
fn last(word: &[u8]) -> u32 {
    word.last().map_or(0, |letter| 1 << (letter & 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(IRREGULAR.is_sorted_by(|one, next| one.0 < next.0));
        let longest = IRREGULAR.map(|(form, _)| form.len()).into_iter().max();
        assert_eq!(longest, Some(LONGEST - 1));
    }

    #[test]
    fn singular_and_plural_of_a_form_have_one_base() {
        let bases =
            ["went", "silt", "mother", "mothers", "s", ""].map(|word| base(word.as_bytes()));
        assert_eq!(
            bases,
            [Some("go"), None, Some("mom"), Some("mom"), None, None]
        );
    }
}
