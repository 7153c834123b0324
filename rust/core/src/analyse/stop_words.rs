//! Stop words, and grammatical characters of Chinese: they say nothing about the subject of a text.
//!
//! Question words are stop words, since an answer does not contain them. `may` is not a stop word: it is a month.
//! Apostrophes were dropped before, so `dont` stands for `don't`.

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::language_choice::Language;

/// The English stop words, in ascending order. Frozen: part of the definition of `lexical-6`.
#[rustfmt::skip]
const STOP_WORDS: [&str; 189] = [
    "a", "about", "above", "after", "again", "against", "all", "also", "although", "am", "an",
    "and", "any", "are", "arent", "as", "at", "be", "because", "been", "before", "being",
    "below", "between", "both", "but", "by", "can", "cannot", "cant", "could", "couldnt", "d",
    "did", "didnt", "do", "does", "doesnt", "doing", "dont", "down", "during", "each", "few",
    "for", "from", "further", "had", "hadnt", "happen", "happened", "happens", "has", "hasnt",
    "have", "havent", "having", "he", "her", "here", "heres", "hers", "herself", "hes", "him",
    "himself", "his", "how", "i", "if", "im", "in", "into", "is", "isnt", "it", "itd", "its",
    "itself", "ive", "just", "lets", "ll", "m", "many", "me", "might", "mightnt", "more",
    "most", "much", "must", "mustnt", "my", "myself", "no", "nor", "not", "now", "of", "off",
    "on", "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own",
    "re", "s", "same", "shall", "shant", "she", "shes", "should", "shouldnt", "since", "so",
    "some", "such", "t", "than", "that", "thats", "the", "their", "theirs", "them",
    "themselves", "then", "there", "theres", "these", "they", "theyd", "theyll", "theyre",
    "theyve", "this", "those", "through", "to", "too", "under", "until", "up", "upon", "us",
    "ve", "very", "was", "wasnt", "we", "were", "werent", "weve", "what", "whats", "when",
    "where", "wheres", "which", "while", "who", "whom", "whos", "whose", "why", "will", "with",
    "within", "without", "wont", "would", "wouldnt", "you", "youd", "youll", "your", "youre",
    "yours", "yourself", "yourselves", "youve",
];

/// The stop words of Russian, Greek, Arabic and Hindi, which are recognized by their scripts; in folded form.
/// Frozen, too.
#[rustfmt::skip]
const OF_OTHER_SCRIPTS: [&str; 454] = [
    "α", "ακομα", "αλλα", "αν", "αντι", "απο", "αυτα", "αυτεσ", "αυτη", "αυτο", "αυτοι", "αυτοσ",
    "αυτουσ", "αυτων", "για", "δε", "δεν", "εαν", "εγω", "ειμαι", "ειναι", "εκει", "εμεισ", "εν",
    "ενα", "ενασ", "ενω", "εσεισ", "εσυ", "εχει", "εχεισ", "εχουν", "εχω", "η", "ηταν", "θα",
    "ισωσ", "και", "κατα", "κι", "μασ", "με", "μεσα", "μετα", "μη", "μην", "μια", "μου", "να", "ο",
    "οι", "ομωσ", "οποια", "οποιο", "οποιοσ", "οπου", "οπωσ", "οσο", "οταν", "οτι", "παρα", "ποια",
    "ποιεσ", "ποιο", "ποιοι", "ποιον", "ποιοσ", "ποιουσ", "ποσα", "ποσεσ", "ποση", "ποσο", "ποσοι",
    "ποσουσ", "ποτε", "που", "προσ", "πωσ", "σασ", "σε", "στα", "στη", "στην", "στισ", "στο",
    "στον", "στουσ", "στων", "συ", "τα", "τη", "την", "τησ", "τι", "τισ", "το", "τον", "του",
    "τουσ", "των", "ωσ", "а", "без", "бы", "был", "была", "были", "было", "быть", "в", "вам", "вас",
    "весь", "во", "вот", "все", "всего", "всех", "вы", "где", "да", "даже", "для", "до", "его",
    "ее", "если", "есть", "еще", "же", "за", "зачем", "здесь", "и", "из", "или", "им", "их", "к",
    "как", "какая", "какие", "какого", "какой", "каком", "какую", "ко", "когда", "кого", "кому",
    "которая", "которого", "которое", "которой", "которые", "который", "которых", "кто", "куда",
    "ли", "мне", "может", "можно", "мой", "моя", "мы", "на", "над", "надо", "нам", "нас", "наш",
    "не", "него", "нее", "ней", "нет", "ни", "них", "но", "о", "об", "обо", "он", "она", "они",
    "оно", "от", "откуда", "очень", "по", "под", "почему", "при", "про", "с", "сам", "свой", "себя",
    "сколько", "со", "так", "также", "такой", "там", "те", "тебе", "тебя", "тем", "то", "тогда",
    "того", "тоже", "той", "только", "том", "тот", "ту", "ты", "у", "уже", "чего", "чей", "чем",
    "через", "что", "чтобы", "чье", "эта", "эти", "этих", "это", "этого", "этой", "этом", "этот",
    "эту", "я", "أن", "أنا", "أنت", "أنه", "أو", "أي", "أية", "أين", "إذا", "إلا", "إلى", "إن",
    "إنه", "التي", "الذي", "الذين", "اللذان", "ب", "بعد", "بل", "بها", "بهذا", "بين", "تلك", "تم",
    "ثم", "حتى", "حيث", "خلال", "ذلك", "سوف", "على", "عليه", "عليها", "عن", "عند", "عندما", "غير",
    "ف", "في", "فيه", "فيها", "قبل", "قد", "كان", "كانت", "كانوا", "كل", "كم", "كما", "كيف", "ل",
    "لا", "لدى", "لقد", "لكن", "لم", "لماذا", "لن", "له", "لها", "لهذا", "ليس", "ما", "ماذا", "متى",
    "مع", "من", "منذ", "منه", "منها", "هذا", "هذه", "هل", "هم", "هنا", "هناك", "هو", "هي", "و",
    "وقد", "وكان", "ولا", "ولم", "وما", "ومن", "وهو", "وهي", "يا", "يتم", "अन्य", "अपना", "अपनी",
    "अपने", "अब", "आदि", "आप", "इन", "इस", "इसका", "इसकी", "इसके", "इसमें", "इसे", "उन", "उनका",
    "उनकी", "उनके", "उन्हें", "उन्होंने", "उस", "उसका", "उसकी", "उसके", "उसने", "उसे", "एक", "एवं",
    "और", "कई", "कब", "कर", "करता", "करते", "करना", "करने", "कहा", "कहाँ", "कहां", "का", "कि",
    "किए", "कितना", "कितनी", "कितने", "किन", "किया", "किस", "किसका", "किसकी", "किसके", "किसने",
    "किसी", "किसे", "की", "कुछ", "के", "कैसे", "को", "कोई", "कौन", "क्या", "क्यों", "क्योंकि", "गई",
    "गए", "गया", "जब", "जा", "जाता", "जाती", "जाते", "जो", "तक", "तथा", "तब", "तुम", "तो", "था",
    "थी", "थीं", "थे", "दिया", "द्वारा", "न", "नहीं", "ने", "पर", "भी", "मुझे", "में", "मैं",
    "मैंने", "यदि", "यह", "यहां", "या", "ये", "रहा", "रही", "रहे", "लिए", "लेकिन", "वह", "वहां",
    "वाला", "वाली", "वाले", "वे", "सकता", "सकते", "साथ", "से", "हम", "ही", "हुआ", "हुई", "हुए",
    "हूं", "है", "हैं", "हो", "होता", "होती", "होते", "होने",
];

/// Pronouns, particles and measure words of Chinese, in both scripts. In ascending order. Frozen, too.
///
/// Only characters that are hardly ever part of a noun. Others, such as `在`, `有` or `地`, are grammatical too, but
/// are often part of nouns.
#[rustfmt::skip]
const FUNCTION_CHARACTERS: [char; 26] = [
    '个', '么', '了', '他', '们', '你', '個', '們', '吗', '吧', '呀', '呢', '哦',
    '啊', '嗎', '嗯', '她', '它', '很', '我', '是', '的', '这', '這', '那', '麼',
];

/// The lengths of the longest words, in bytes.
const LONGEST: usize = 10;
const LONGEST_OF_OTHERS: usize = 24;

/// Whether a word in lower case is a stop word of English, or of the language of its script.
pub(super) fn is_stop_word(word: &str) -> bool {
    is_english_stop_word(word) || is_stop_word_of_script(word)
}

/// Whether a word in lower case is an English stop word.
pub(super) fn is_english_stop_word(word: &str) -> bool {
    static KNOWN: LazyLock<FxHashSet<&str>> = LazyLock::new(|| STOP_WORDS.into_iter().collect());
    word.len() <= LONGEST && KNOWN.contains(word)
}

/// Whether a word in lower case is a stop word of the language of its script.
pub(super) fn is_stop_word_of_script(word: &str) -> bool {
    static OTHERS: LazyLock<FxHashSet<&str>> =
        LazyLock::new(|| OF_OTHER_SCRIPTS.into_iter().collect());
    let is_ascii = word.as_bytes().first().is_none_or(u8::is_ascii);
    !is_ascii && word.len() <= LONGEST_OF_OTHERS && OTHERS.contains(word)
}

/// Whether a character is purely grammatical.
pub(super) fn is_function_character(c: char) -> bool {
    FUNCTION_CHARACTERS.binary_search(&c).is_ok()
}

// Function words of languages in Latin letters. They tell the language of a text, and are left out of its terms.
//
// The words are in their folded form, hence without accents. Frozen: part of the definition of `lexical-6`.

/// The function words of each language, in the order of `LANGUAGES`.
#[rustfmt::skip]
const FUNCTION_WORDS: [&str; 14] = [
    // Danish
    "af at blev blive bliver da de dem den denne der deres det dette dig din disse du efter \
     eller en end er et for fra ham han hans har havde have hende hendes her hos hun hvad hvem \
     hver hvis hvor hvordan hvorfor i ikke ind jeg jer kan kunne man med meget men mig min mod \
     nar ned noget nogle nu og ogsa om op os over pa sig sin skal skulle som til ud under var \
     ved vi vil ville være været",
    // German
    "aber als am an auch auf aus bei beim bin bis da damit dann das dass dem den der deren des \
     dessen die dies diese diesem diesen dieser dieses doch du durch ein eine einem einen einer \
     eines er es fur gegen habe haben hat hatte hatten hinter ich ihm ihn ihr ihre ihrem ihren \
     ihrer im in ist jede jeder jedoch kann keine konnen man mein mich mir mit nach nicht nichts \
     noch nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind so uber um \
     und uns unser unter vom von vor wahrend war waren warum was wegen welche welchem welchen \
     welcher welches wenn wer werden wie wieder wir wird wo wurde wurden zu zum zur zwischen",
    // Spanish
    "a al algo ante antes como con contra cual cuales cuando cuanto cuantos de del desde donde \
     durante e el ella ellas ellos en entre era eran eres es esa esas ese eso esos esta estaba \
     estan estar estas este esto estos fue fueron ha habia han hasta hay la las le les lo los \
     mas me mi mis mucho muy ni no nos o otra otro para pero poco por porque que quien quienes \
     se ser si sido sin sobre son su sus tambien tanto te tenia tiene tienen toda todo todos tu \
     un una uno unos y ya yo",
    // Finnish
    "ei eivat ett etta han hanen ja jo joiden joissa joka jonka jos jossa jotka kanssa kuin \
     kuinka kun me mika milla missa mita mukaan mutta myos ne niiden niin noin nyt olevan oli \
     olivat olla olleet ollut on ovat paljon se seka sen siita silla sita tai tama taman tata \
     vaan vain vuonna",
    // French
    "a ai ainsi alors apres au aucun aussi autre aux avait avant avec avoir c ce cela ces cet \
     cette ceux chez comme comment d dans de depuis des donc dont du elle elles en encore entre \
     est et etaient etait ete etre eu fait furent fut il ils j je jusqu l la le les leur leurs \
     lorsque lui ma mais me meme mes moi moins mon n ne ni nos notre nous on ont ou par parce \
     pas pendant peu peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s \
     sa sans se selon ses si soit son sont sous sur ta tant te tes toi ton tous tout toute tres \
     tu un une vers vos votre vous y",
    // Hungarian
    "a aki akik altal amely amelyek ami at az azonban azt be csak de e egy egyik el es ez ezek \
     ezt fel ha hanem hogy hogyan ide is itt kell ki kozott kozt le lehet lesz lett majd mar mas \
     meg mely mi miatt mig mikor milyen mint mit most nagyon nelkul nem nincs o ok oket olyan \
     pedig s sem szerint ugy utan utana vagy van vannak volt voltak",
    // Italian
    "a ad agli ai al alla alle allo anche c che chi ci co come con contro cosa cui da dai dal \
     dalla dalle dallo degli dei del dell della delle dello di dopo dove durante e ed era erano \
     essere fino fra fu furono gli ha hanno i il in io l la le lo loro lui ma mentre mi mia mio \
     molto ne negli nei nel nell nella nelle nello noi non nostro o ogni per perche piu poi \
     prima qual quale quali quando quanti quanto quella quelle quelli quello questa queste \
     questi questo se sei senza si sia siamo solo sono sotto sta stata stati stato su sua sue \
     sugli sui sul sulla sulle suo suoi tra tu tutti tutto un una uno va vi voi",
    // Dutch
    "aan al alle als andere bij dan dat de der deze die dit doch doen door dus een eens en er ge \
     geen geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je \
     kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat \
     onder ons ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom \
     wanneer want waren was wat we wel welke werd werden wie wij worden wordt zal ze zelf zich \
     zij zijn zo zonder zou zouden",
    // Norwegian
    "alle at av bare ble blei bli blir da de deg dem den denne der deres det dette din disse du \
     eller en enn er et etter for fra før gjennom ha hadde han hans har hennes her hun hva hvem \
     hver hvilke hvilken hvis hvor hvordan hvorfor i ikke inn jeg kan kunne ma man med meg \
     mellom men min mot mye na nar nei noe noen og ogsa om opp oss over pa sa seg sin skal \
     skulle slik som til under ut uten var ved vi vil ville være vært",
    // Portuguese
    "a ao aos aquela aquele aquilo as ate com como contra da das de dela dele deles depois desde \
     do dos e ela elas ele eles em entre era eram essa esse esta estao estava este eu foi foram \
     ha isso isto ja la lhe lhes mais mas me mesmo meu minha muito na nao nas nem no nos nossa \
     nosso num numa o os ou para pela pelas pelo pelos por porque quais qual quando quanto \
     quantos que quem sao se seja sem ser seu seus sido so sobre sua suas tambem te tem tendo \
     tinha toda todo todos tu tua tudo um uma umas uns voce voces",
    // Romanian
    "a acea aceasta acest aceste acestea acestei acestor acestora acestui acum ai al ale am ar \
     are asupra atunci au avea avut ca cand care caror cat cate cati catre ce cea cei cel cele \
     celor cu cum da daca dar de decat deci despre din dintre doar dupa ea ei el ele era erau \
     este eu fapt fi fie fiecare fiind foarte fost iar ii il in insa intre isi la le lor lui mai \
     mult multe multi ne nici nimic noi nu o ori pe pentru peste prin putin sa sale sau se si \
     sub sunt toate tot toti un una unde unei unele unor unui unul va vor",
    // Swedish
    "alla allt an ar att av blev bli blir da dag dar de dem den denna deras dess dessa det detta \
     dig din du efter ej eller en enligt er ett for fran genom ha hade han hans har henne hennes \
     hon hos hur i icke in inom inte jag kan kunde man med mellan men mig min mot mycket nagon \
     nagot nagra nar ni nu och ocksa om oss over pa sa samma sedan sig sin sina skall skulle som \
     till under upp ut utan var vara varfor varit varje vars vem vi vid vilka vilken vilket vill",
    // Turkish
    "ama ancak artık az bana bazı belki ben beni benim bile bir bircok biri biz bize bizi bizim \
     bu buna bunda bundan bunlar bunu bunun burada cok cunku da daha dahi de degil diger diye en \
     fakat gibi gore hala hangi hangisi hatta hem hep her hic icin ile ise iste kac kadar karsı \
     kendi ki kim kimin mi mu mı nasıl ne neden nedir nerede o olan olarak oldu oldugu oldugunu \
     olması on ona onlar onu onun sadece sen senin sey siz son sonra su tarafından tum uzere var \
     vardı ve veya ya yani yok zaten",
    // Vietnamese
    "ai ba bi boi cac cho co cua cung duoi gi hay hoac khi khong la lam ma mot nam nao nay nguoi \
     nhat nhieu nhu nhung o ong ra sau su tai theo thi tren trong truoc tu va vao ve viec voi đa \
     đay đe đen đo đuoc",
];
/// Letters that only one of the languages has.
const LETTERS: [(char, Language); 2] = [('ß', Language::German), ('ı', Language::Turkish)];

/// The length of the longest function word, in bytes.
const LONGEST_FUNCTION_WORD: usize = 12;

/// A bit for each language in which a word is a function word, in the order of `LANGUAGES`.
fn bits(word: &str) -> u16 {
    static KNOWN: LazyLock<FxHashMap<&str, u16>> = LazyLock::new(|| {
        let mut known = FxHashMap::default();
        for (language, words) in FUNCTION_WORDS.iter().enumerate() {
            for word in words.split_ascii_whitespace() {
                *known.entry(word).or_default() |= 1 << language;
            }
        }
        known
    });
    if word.len() > LONGEST_FUNCTION_WORD {
        return 0;
    }
    KNOWN.get(word).copied().unwrap_or_default()
}

/// A bit for each language that a word in lower case is evidence for. A single letter is evidence for none, unless
/// it is one of `LETTERS`.
pub(super) fn votes(word: &str) -> u16 {
    let mut votes = if word.chars().nth(1).is_some() {
        bits(word)
    } else {
        0
    };
    for (letter, language) in LETTERS {
        if !word.is_ascii() && word.contains(letter) {
            votes |= bit(language);
        }
    }
    votes
}

/// Whether a word in lower case is a function word of a language.
pub(super) fn says_nothing(language: Language, word: &str) -> bool {
    match language {
        Language::English => is_english_stop_word(word),
        _ => bits(word) & bit(language) != 0,
    }
}

fn bit(language: Language) -> u16 {
    1 << (language.number() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::LANGUAGES;

    #[test]
    fn the_tables_are_in_order() {
        assert!(STOP_WORDS.is_sorted_by(|one, next| one < next));
        assert!(FUNCTION_CHARACTERS.is_sorted_by(|one, next| one < next));
        assert_eq!(STOP_WORDS.map(str::len).into_iter().max(), Some(LONGEST));
        assert!(OF_OTHER_SCRIPTS.is_sorted_by(|one, next| one < next));
        let longest = OF_OTHER_SCRIPTS.map(str::len).into_iter().max();
        assert_eq!(longest, Some(LONGEST_OF_OTHERS));
        assert!(OF_OTHER_SCRIPTS.into_iter().all(is_stop_word));
        assert!(STOP_WORDS.into_iter().all(is_stop_word));
        assert!(is_stop_word("when") && !is_stop_word("may"));
        assert!(is_function_character('的') && !is_function_character('地'));
    }

    #[test]
    fn the_lists_are_in_order_and_fit() {
        for words in FUNCTION_WORDS {
            let words: Vec<&str> = words.split_ascii_whitespace().collect();
            assert!(words.is_sorted_by(|one, next| one < next), "{words:?}");
            assert!(
                words.iter().all(|word| word.len() <= LONGEST_FUNCTION_WORD),
                "{words:?}"
            );
        }
        assert_eq!(FUNCTION_WORDS.len(), LANGUAGES.len());
    }

    #[test]
    fn a_word_speaks_for_every_language_that_has_it() {
        assert_eq!(votes("und"), bit(Language::German));
        assert_eq!(
            votes("del"),
            bit(Language::Spanish) | bit(Language::Italian)
        );
        assert_eq!(votes("strasße"), bit(Language::German));
        assert_eq!(votes("kapısı"), bit(Language::Turkish));
        assert_eq!((votes("e"), votes("river")), (0, 0));
        assert!(says_nothing(Language::Italian, "e") && says_nothing(Language::English, "the"));
    }
}
