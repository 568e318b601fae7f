"""Cues: words by which a statement shows what it is about, in several languages.

Where a language has no cues here, structure alone decides: labels, headings, lists, code and position.
"""

from __future__ import annotations

import re


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


#: What a statement says. A row a language: English, German, Spanish, French; Chinese, Japanese and Korean together.
CUES = {
    "cause": _words(
        r"\b(?:because|root cause|caused? by|due to|turns? out|the (?:actual |real |main )?(?:issue|problem|bug|reason|"
        r"culprit|cause)\b|that'?s why|which (?:caused|breaks|broke|means|meant|led)|leads? to|results? in|"
        r"happens when|fails? (?:when|if|because)|since)\b",
        r"\b(?:weil|Ursache|wegen|lag (?:daran|an)|Grund|dadurch)\b",
        r"\b(?:porque|causa|debido|ya que|motivo)\b",
        r"\b(?:parce que|à cause|car)\b",
        "因为|原因|由于|导致|ため|ので|せい|때문",
    ),
    "decision": _words(
        r"\b(?:decid(?:ed?|ing)|decision|chose|chosen|opted|agreed|settled on|go(?:ing)? with|went with|"
        r"instead(?: of)?|rather than|keep(?:s|ing)?|kept|by design|on purpose|intentional(?:ly)?|single source|"
        r"trade-?offs?|prefer(?:red|s)?|we use|approach)\b",
        r"\b(?:entschieden|Entscheidung|statt(?:dessen)?|beschlossen|bleibt)\b",
        r"\b(?:decid\w+|decisión|en (?:lugar|vez) de|elegi\w+)\b",
        r"\b(?:décid\w+|plutôt que|au lieu)\b",
        "决定|选择|改用|而不是|决策|ことにし|決定|決め|代わりに|採用|결정|대신",
    ),
    "limit": _words(
        r"\b(?:never|always|must(?:n'?t)?|don'?t|do not|does(?:n'?t| not)|cannot|can'?t|can not|only|note(?: that)?|"
        r"important(?:ly)?|careful|caveat|however|except|unless|requires?|required|has to|have to|won'?t|isn'?t|"
        r"aren'?t|not supported|without|avoid|beware|gotcha|warning|limitation|even (?:if|though|when)|already)\b",
        r"\b(?:nie(?:mals)?|immer|muss|müssen|darf|Achtung|wichtig|nur|nicht|außer|Hinweis)\b",
        r"\b(?:nunca|siempre|debe\w*|importante|solo|sólo|cuidado|no se)\b",
        r"\b(?:jamais|toujours|doit|attention|seulement)\b",
        "必须|不要|不能|注意|只能|务必|总是|必ず|しないで|ください|だけ|できない|重要|반드시|주의|절대",
    ),
    "open": _words(
        r"\b(?:next steps?|to-?do|remain(?:s|ing)?|still|not (?:yet|implemented|done|fixed|tested)|have(?:n'?t| not)|"
        r"has(?:n'?t| not)|pending|should (?:i|we)|want me to|would you like|do you want|let me know|follow-?ups?|"
        r"once you|left|ready (?:to|for)|future|later|open question|outstanding|needs? to be|tbd|"
        r"you(?:'ll| will)? (?:need|have) to|blocked|untested|unclear)\b",
        r"\b(?:noch|nächste[rn]?|offen|ausstehend|später|fehlt|bleibt)\b",
        r"\b(?:pendiente|falta|próximo|siguiente|todavía|queda)\b",
        r"\b(?:reste|prochaine|encore|à faire)\b",
        "下一步|还需要|尚未|待办|剩下|接下来|未完成|次に|残り|まだ|今後|未対応|아직|다음",
    ),
    "done": _words(
        r"\b(?:fix(?:ed|es)|add(?:ed|s)|remov(?:ed|es)|renam(?:ed|es)|chang(?:ed|es)|moved?|now|updat(?:ed|es)|"
        r"implement(?:ed|s)|replac(?:ed|es)|creat(?:ed|es)|refactor(?:ed)?|extract(?:ed|s)|introduc(?:ed|es)|"
        r"simplif(?:ied|ies)|pass(?:es|ing|ed)?|complet(?:ed|e)|clean(?:ed)?|delet(?:ed|es)|bump(?:ed)?|commit(?:ted)?|"
        r"merged|increased|reduced|reverted|preserv(?:es|ed)|verif(?:ied|ies))\b",
        r"\b(?:behoben|hinzugefügt|geändert|entfernt|jetzt|umbenannt|ersetzt|erledigt|fertig)\b",
        r"\b(?:arregl\w+|añad\w+|corregid\w+|eliminad\w+|ahora|cambi\w+|agregad\w+)\b",
        "修复|添加|新增|修改|删除|已|完成|现在|修正|追加|変更|削除|しました|完了|수정|추가",
    ),
    "wish": _words(
        r"\b(?:i (?:want|would like|prefer|think|don'?t)|i'd|please|should|can (?:you|we)|let'?s|could you|make sure|"
        r"we (?:want|need|should)|you should|no,|why|actually|instead)\b",
        r"\b(?:bitte|ich (?:will|möchte)|soll(?:te)?|wir (?:wollen|brauchen))\b",
        r"\b(?:por favor|quiero|quisiera|debería)\b",
        "请|希望|想要|应该|してほしい|したい|ください|부탁",
    ),
    "plan": _words(  # what is about to be done, which may never be
        r"^(?:now |ok(?:ay)?,? |good[,.!]? |great[,.!]? |perfect[,.!]? |alright,? |first,? |next,? |then,? )*"
        r"(?:let me|i'?ll|i will|let'?s|i'?m going to|i need to|i should|now i|i can see|looking|checking|we need to|"
        r"now (?:update|add|let|run|fix|check))\b",
        r"^(?:ich werde|lass mich|jetzt)\b",
        r"^(?:voy a|déjame|ahora voy)\b",
        "^(?:让我|我将|我来|まず|これから|では)",
    ),
    "guess": _words(
        r"\b(?:likely|probably|may(?:be)?|might|appears?|seems?|could be|possibl[ey]|perhaps|i think|suspect|guess|"
        r"assum\w+|presumably|would|if you)\b",
        r"\b(?:vielleicht|wahrscheinlich|vermutlich|scheint)\b",
        r"\b(?:quizás?|probablemente|parece)\b",
        "可能|也许|大概|かもしれ|おそらく|たぶん|아마",
    ),
    "filler": _words(
        r"^(?:perfect|great|excellent|done|good|awesome|sure|yes|ok(?:ay)?|absolutely|got it|understood|you'?re right|"
        r"all (?:done|set|good|tests)|here(?:'s| is| are)|good (?:question|point|catch)|found it|i see|no worries|"
        r"thanks|nice|summary)\b"
    ),
    "test": _words(r"\b(?:tests?|lint(?:er|ing)?|build|ci|coverage|passing)\b", "测试|テスト|테스트"),
    "vague": _words(r"^(?:this|that|it|these|those|they|which|both|also|and|so|but|the (?:first|second|other))\b"),
    "test item": _words(
        r"^`?(?:Test[A-Z_]\w*|tests?\b)|\bverif(?:y|ies|ied)\b|_test\.\w+|test_\w+\.py|"
        r"\b(?:unit|integration|regression|new|added|updated|existing) tests?\b"
    ),
    "status": _words(
        r"\btests? (?:now |all )?pass|\blint(?:er|ing)? (?:is |are )?clean|\b0 issues|\bcompiles\b|"
        r"\bbuilds? (?:successfully|passes|succeeds)|\ball green\b|✅"
    ),
    "nameless": _words(  # begins with a word for something that another sentence names
        r"^(?:now )?(?:it|they|both|these|those|all \d+)(?:'(?:s|re|ll|d))?\b|"
        r"^(?:now )?(?:this|that|the (?:fix|change|issue|problem|error|file|solution|approach|output))(?:'s)?\b(?!.*`)|"
        r"^the (?:function|method|condition|strategy|command|test|code|helper|old code)\b(?! [`\w]*[`_A-Z])"
    ),
    "bare verb": _words(
        r"^(?:\w+ly )?(?:returns|uses|sets|takes|creates|handles|verifies|implements|appends|adds|reads|writes|checks|"
        r"calls|stores|shows|matches|ensures|allows|updates|removes|keeps|tests|provides|supports|contains|includes|"
        r"points|makes|gets|loads|parses|defaults|works|covers|displays)\b"
    ),
    "mechanical": _words(
        r"\b(?:imports?|loop variable|variable names?|comments?|signatures?|parameters?|call ?sites?|references|"
        r"registration|type alias|docstrings?|wording|width|formatting|indentation)\b"
    ),
    "praise": _words(
        r"\b(?:clean(?:er|est)|idiomatic|maintainable|comprehensive|robust|elegant|readable|minimal|straightforward|"
        r"well[- ](?:structured|tested|designed|documented)|good (?:coverage|practice)|best practices?|clear)\b"
    ),
    "moment": _words(
        r"\b(?:you can (?:now )?(?:test|try|run|see|use|verify)|try (?:running|it|again)|when you run|run it again|"
        r"look for|this time|should (?:now )?(?:show|see))\b|^(?:run|try|check|replace|look)\b"
    ),
    "current": _words(r"\bcurrent(?:ly)?\b|\bat the moment\b|\bright now\b|\balready\b"),
    "arrow": _words(r"→|->|=>"),
    "hash": _words(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"),
    "line number": _words(r"\blines? ~?\d+|\w:\d+(?:-\d+)?\b"),
    "contrast": _words(
        r"\b(?:but|however|although|though|while|whereas|not)\b", r"\b(?:aber|jedoch|pero|mais)\b", "但|却|しかし|だが"
    ),
}
#: What the heading or label over a statement says it is.
HEADINGS = {
    "heading_cause": _words(
        r"cause|problem|issue|bug|why|reason|finding|happen|diagnos", "Ursache|原因|問題|问题|causa"
    ),
    "heading_done": _words(
        r"fix|solution|change|result|done|summary|what (?:was|changed|i)|implement|key|update|refactor",
        "修|変更|更改|Änderung|cambios",
    ),
    "heading_open": _words(
        r"next|todo|to do|remain|open|follow|outstanding|future|question|recommend|option|pending|left|still",
        "下一步|次|残|nächste|offen|pendiente|próxim",
    ),
    "heading_note": _words(
        r"note|important|caveat|limitation|edge|gotcha|warning|trade|decision|design|behaviou?r|how",
        "注意|重要|wichtig|nota",
    ),
    "heading_option": _words(r"option|alternative|approach|recommend|suggest|propos|\?$"),
    "heading_praise": _words(r"strength|good|well|benefit|advantage|looks"),
    "heading_list": _words(r"files?\b|key|what it|where|location|related|usage|example|steps?\b"),
    "heading_test": _words(r"test|verif|coverage"),
    "heading_file": _words(r"\.\w{1,4}\b|/"),
}
