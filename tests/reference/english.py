"""The tables of ``lexical-6`` for English: words that say nothing, and irregular forms."""

from __future__ import annotations

__all__ = ["IRREGULAR", "STOP_WORDS"]

STOP_WORDS = frozenset([
    "a", "about", "above", "after", "again", "against", "all", "also", "although", "am", "an", "and",
    "any", "are", "arent", "as", "at", "be", "because", "been", "before", "being", "below", "between",
    "both", "but", "by", "can", "cannot", "cant", "could", "couldnt", "d", "did", "didnt", "do", "does",
    "doesnt", "doing", "dont", "down", "during", "each", "few", "for", "from", "further", "had", "hadnt",
    "happen", "happened", "happens", "has", "hasnt", "have", "havent", "having", "he", "her", "here",
    "heres", "hers", "herself", "hes", "him", "himself", "his", "how", "i", "if", "im", "in", "into", "is",
    "isnt", "it", "itd", "its", "itself", "ive", "just", "lets", "ll", "m", "many", "me", "might",
    "mightnt", "more", "most", "much", "must", "mustnt", "my", "myself", "no", "nor", "not", "now", "of",
    "off", "on", "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own", "re",
    "s", "same", "shall", "shant", "she", "shes", "should", "shouldnt", "since", "so", "some", "such", "t",
    "than", "that", "thats", "the", "their", "theirs", "them", "themselves", "then", "there", "theres",
    "these", "they", "theyd", "theyll", "theyre", "theyve", "this", "those", "through", "to", "too",
    "under", "until", "up", "upon", "us", "ve", "very", "was", "wasnt", "we", "were", "werent", "weve",
    "what", "whats", "when", "where", "wheres", "which", "while", "who", "whom", "whos", "whose", "why",
    "will", "with", "within", "without", "wont", "would", "wouldnt", "you", "youd", "youll", "your",
    "youre", "yours", "yourself", "yourselves", "youve",
])  # fmt: skip

#: The base of each form.
IRREGULAR = {
    "am": "be", "are": "be", "ate": "eat", "became": "become", "been": "be", "began": "begin",
    "begun": "begin", "best": "good", "better": "good", "bit": "bite", "bitten": "bite", "blew": "blow",
    "blown": "blow", "bought": "buy", "broke": "break", "broken": "break", "brought": "bring",
    "built": "build", "burnt": "burn", "came": "come", "caught": "catch", "children": "child",
    "chose": "choose", "chosen": "choose", "daddy": "dad", "dealt": "deal", "did": "do", "does": "do",
    "done": "do", "drank": "drink", "drawn": "draw", "dreamt": "dream", "drew": "draw", "driven": "drive",
    "drove": "drive", "drunk": "drink", "dug": "dig", "eaten": "eat", "fallen": "fall", "father": "dad",
    "fed": "feed", "feet": "foot", "fell": "fall", "felt": "feel", "flew": "fly", "flown": "fly",
    "forgave": "forgive", "forgiven": "forgive", "forgot": "forget", "forgotten": "forget",
    "fought": "fight", "found": "find", "froze": "freeze", "frozen": "freeze", "gave": "give",
    "given": "give", "gone": "go", "got": "get", "gotten": "get", "grew": "grow", "grown": "grow",
    "had": "have", "halves": "half", "has": "have", "heard": "hear", "held": "hold", "hid": "hide",
    "hidden": "hide", "hung": "hang", "is": "be", "kept": "keep", "kids": "kid", "knew": "know",
    "knives": "knife", "known": "know", "laid": "lay", "lain": "lie", "lay": "lie", "learnt": "learn",
    "leaves": "leaf", "led": "lead", "left": "leave", "lent": "lend", "lit": "light", "lives": "life",
    "lost": "lose", "made": "make", "meant": "mean", "men": "man", "met": "meet", "mice": "mouse",
    "mommy": "mom", "mother": "mom", "mum": "mom", "paid": "pay", "people": "person",
    "photograph": "photo", "photos": "photo", "pic": "photo", "pics": "photo", "picture": "photo",
    "pictures": "photo", "proven": "prove", "ran": "run", "rang": "ring", "ridden": "ride",
    "risen": "rise", "rode": "ride", "rose": "rise", "rung": "ring", "said": "say", "sang": "sing",
    "sank": "sink", "sat": "sit", "saw": "see", "seen": "see", "sent": "send", "sewn": "sew",
    "shaken": "shake", "shone": "shine", "shook": "shake", "shot": "shoot", "shown": "show",
    "shrank": "shrink", "shrunk": "shrink", "slept": "sleep", "slid": "slide", "sold": "sell",
    "sought": "seek", "spent": "spend", "spoke": "speak", "spoken": "speak", "stole": "steal",
    "stolen": "steal", "stood": "stand", "struck": "strike", "stuck": "stick", "sung": "sing",
    "sunk": "sink", "swam": "swim", "swept": "sweep", "swore": "swear", "sworn": "swear", "swum": "swim",
    "taken": "take", "taught": "teach", "teeth": "tooth", "thought": "think", "threw": "throw",
    "thrown": "throw", "told": "tell", "took": "take", "tore": "tear", "torn": "tear",
    "understood": "understand", "was": "be", "went": "go", "were": "be", "wives": "wife", "woke": "wake",
    "woken": "wake", "wolves": "wolf", "women": "woman", "won": "win", "wore": "wear", "worn": "wear",
    "worse": "bad", "worst": "bad", "wound": "wind", "wove": "weave", "woven": "weave", "written": "write",
    "wrote": "write",
}  # fmt: skip
