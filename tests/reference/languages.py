"""The tables of ``lexical-6`` for languages in Latin letters: their function words, and stemmers."""

from __future__ import annotations

__all__ = ["FUNCTION_WORDS", "STEMMERS"]

_WORDS = {
    "da": """
        af at blev blive bliver da de dem den denne der deres det dette dig din disse du efter eller
        en end er et for fra ham han hans har havde have hende hendes her hos hun hvad hvem hver
        hvis hvor hvordan hvorfor i ikke ind jeg jer kan kunne man med meget men mig min mod nar ned
        noget nogle nu og ogsa om op os over pa sig sin skal skulle som til ud under var ved vi vil
        ville være været
    """,
    "de": """
        aber als am an auch auf aus bei beim bin bis da damit dann das dass dem den der deren des
        dessen die dies diese diesem diesen dieser dieses doch du durch ein eine einem einen einer
        eines er es fur gegen habe haben hat hatte hatten hinter ich ihm ihn ihr ihre ihrem ihren
        ihrer im in ist jede jeder jedoch kann keine konnen man mein mich mir mit nach nicht nichts
        noch nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind so uber um und
        uns unser unter vom von vor wahrend war waren warum was wegen welche welchem welchen welcher
        welches wenn wer werden wie wieder wir wird wo wurde wurden zu zum zur zwischen
    """,
    "es": """
        a al algo ante antes como con contra cual cuales cuando cuanto cuantos de del desde donde
        durante e el ella ellas ellos en entre era eran eres es esa esas ese eso esos esta estaba
        estan estar estas este esto estos fue fueron ha habia han hasta hay la las le les lo los mas
        me mi mis mucho muy ni no nos o otra otro para pero poco por porque que quien quienes se ser
        si sido sin sobre son su sus tambien tanto te tenia tiene tienen toda todo todos tu un una
        uno unos y ya yo
    """,
    "fi": """
        ei eivat ett etta han hanen ja jo joiden joissa joka jonka jos jossa jotka kanssa kuin
        kuinka kun me mika milla missa mita mukaan mutta myos ne niiden niin noin nyt olevan oli
        olivat olla olleet ollut on ovat paljon se seka sen siita silla sita tai tama taman tata
        vaan vain vuonna
    """,
    "fr": """
        a ai ainsi alors apres au aucun aussi autre aux avait avant avec avoir c ce cela ces cet
        cette ceux chez comme comment d dans de depuis des donc dont du elle elles en encore entre
        est et etaient etait ete etre eu fait furent fut il ils j je jusqu l la le les leur leurs
        lorsque lui ma mais me meme mes moi moins mon n ne ni nos notre nous on ont ou par parce pas
        pendant peu peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa
        sans se selon ses si soit son sont sous sur ta tant te tes toi ton tous tout toute tres tu
        un une vers vos votre vous y
    """,
    "hu": """
        a aki akik altal amely amelyek ami at az azonban azt be csak de e egy egyik el es ez ezek
        ezt fel ha hanem hogy hogyan ide is itt kell ki kozott kozt le lehet lesz lett majd mar mas
        meg mely mi miatt mig mikor milyen mint mit most nagyon nelkul nem nincs o ok oket olyan
        pedig s sem szerint ugy utan utana vagy van vannak volt voltak
    """,
    "it": """
        a ad agli ai al alla alle allo anche c che chi ci co come con contro cosa cui da dai dal
        dalla dalle dallo degli dei del dell della delle dello di dopo dove durante e ed era erano
        essere fino fra fu furono gli ha hanno i il in io l la le lo loro lui ma mentre mi mia mio
        molto ne negli nei nel nell nella nelle nello noi non nostro o ogni per perche piu poi prima
        qual quale quali quando quanti quanto quella quelle quelli quello questa queste questi
        questo se sei senza si sia siamo solo sono sotto sta stata stati stato su sua sue sugli sui
        sul sulla sulle suo suoi tra tu tutti tutto un una uno va vi voi
    """,
    "nl": """
        aan al alle als andere bij dan dat de der deze die dit doch doen door dus een eens en er ge
        geen geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je
        kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat
        onder ons ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom
        wanneer want waren was wat we wel welke werd werden wie wij worden wordt zal ze zelf zich
        zij zijn zo zonder zou zouden
    """,
    "no": """
        alle at av bare ble blei bli blir da de deg dem den denne der deres det dette din disse du
        eller en enn er et etter for fra før gjennom ha hadde han hans har hennes her hun hva hvem
        hver hvilke hvilken hvis hvor hvordan hvorfor i ikke inn jeg kan kunne ma man med meg mellom
        men min mot mye na nar nei noe noen og ogsa om opp oss over pa sa seg sin skal skulle slik
        som til under ut uten var ved vi vil ville være vært
    """,
    "pt": """
        a ao aos aquela aquele aquilo as ate com como contra da das de dela dele deles depois desde
        do dos e ela elas ele eles em entre era eram essa esse esta estao estava este eu foi foram
        ha isso isto ja la lhe lhes mais mas me mesmo meu minha muito na nao nas nem no nos nossa
        nosso num numa o os ou para pela pelas pelo pelos por porque quais qual quando quanto
        quantos que quem sao se seja sem ser seu seus sido so sobre sua suas tambem te tem tendo
        tinha toda todo todos tu tua tudo um uma umas uns voce voces
    """,
    "ro": """
        a acea aceasta acest aceste acestea acestei acestor acestora acestui acum ai al ale am ar
        are asupra atunci au avea avut ca cand care caror cat cate cati catre ce cea cei cel cele
        celor cu cum da daca dar de decat deci despre din dintre doar dupa ea ei el ele era erau
        este eu fapt fi fie fiecare fiind foarte fost iar ii il in insa intre isi la le lor lui mai
        mult multe multi ne nici nimic noi nu o ori pe pentru peste prin putin sa sale sau se si sub
        sunt toate tot toti un una unde unei unele unor unui unul va vor
    """,
    "sv": """
        alla allt an ar att av blev bli blir da dag dar de dem den denna deras dess dessa det detta
        dig din du efter ej eller en enligt er ett for fran genom ha hade han hans har henne hennes
        hon hos hur i icke in inom inte jag kan kunde man med mellan men mig min mot mycket nagon
        nagot nagra nar ni nu och ocksa om oss over pa sa samma sedan sig sin sina skall skulle som
        till under upp ut utan var vara varfor varit varje vars vem vi vid vilka vilken vilket vill
    """,
    "tr": """
        ama ancak artık az bana bazı belki ben beni benim bile bir bircok biri biz bize bizi bizim
        bu buna bunda bundan bunlar bunu bunun burada cok cunku da daha dahi de degil diger diye en
        fakat gibi gore hala hangi hangisi hatta hem hep her hic icin ile ise iste kac kadar karsı
        kendi ki kim kimin mi mu mı nasıl ne neden nedir nerede o olan olarak oldu oldugu oldugunu
        olması on ona onlar onu onun sadece sen senin sey siz son sonra su tarafından tum uzere var
        vardı ve veya ya yani yok zaten
    """,
    "vi": """
        ai ba bi boi cac cho co cua cung duoi gi hay hoac khi khong la lam ma mot nam nao nay nguoi
        nhat nhieu nhu nhung o ong ra sau su tai theo thi tren trong truoc tu va vao ve viec voi đa
        đay đe đen đo đuoc
    """,
}

#: The words that tell a language, and say nothing in it, as they are after folding.
FUNCTION_WORDS = {code: frozenset(words.split()) for code, words in _WORDS.items()}

#: The names of their stemmers; Vietnamese words have one form.
STEMMERS = {
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "sv": "swedish",
    "tr": "turkish",
}
