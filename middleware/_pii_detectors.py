"""Where sensitive values stand in a text: the detectors that come along.

All of them read a text in time that grows with its length, whatever is in it, and see through look-alikes: full-width
forms, digits of other scripts and characters without width are read as what they stand for.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from typing_extensions import TypedDict

__all__ = [
    "BUILT_IN",
    "Detector",
    "PIIMatch",
    "Search",
    "detect_credit_card",
    "detect_email",
    "detect_ip",
    "detect_mac_address",
    "detect_url",
]

Spans = Iterator[tuple[int, int]]


class PIIMatch(TypedDict):
    """One sensitive value in a text.

    Attributes:
        type: what it is, such as "email".
        value: the value as it stands in the text.
        start: where it begins, in characters.
        end: where it ends; the first character after it.
    """

    type: str
    value: str
    start: int
    end: int


Detector = Callable[[str], list[PIIMatch]]


class _Folding(dict[int, str | None]):
    """For `str.translate`: each character as the ASCII one it stands for, None for one without width."""

    def __missing__(self, code: int) -> str | None:
        self[code] = folded = _folded(chr(code))
        return folded


def _folded(char: str) -> str | None:
    if unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f":
        return None
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 and plain.isascii() else char


_FOLDING = _Folding()


@dataclass(frozen=True)
class Search:
    """A detector that also knows what its values are made of, so that a stream need not be held back to its end.

    Attributes:
        kind: the type of its matches.
        spans: where values stand in a folded text.
        core: matches a character that a value may contain. Any other one ends every value, and what stands on one side
            of it is of no matter to the other.
    """

    kind: str
    spans: Callable[[str], Spans]
    core: re.Pattern[str]

    def __call__(self, content: str) -> list[PIIMatch]:
        """The values in a text, in order, none inside another."""
        folded = content if content.isascii() else content.translate(_FOLDING)
        places = None
        if len(folded) != len(content):
            places = [place for place, char in enumerate(content) if _FOLDING[ord(char)] is not None]
        found = []
        for start, end in self.spans(folded):
            first, last = (start, end) if places is None else (places[start], places[end - 1] + 1)
            found.append(PIIMatch(type=self.kind, value=content[first:last], start=first, end=last))
        return found

    def boundary(self, content: str) -> int:
        """The place after the last character that no value contains; 0 where there is none."""
        for place in range(len(content) - 1, -1, -1):
            char = _FOLDING[ord(content[place])]
            if char is not None and not self.core.match(char):
                return place + 1
        return 0


# Latin, Greek, Cyrillic and their neighbours. Scripts that put no spaces between words would draw in whole sentences.
_LETTER = "A-Za-z\u00c0-\u1fff"
_WORD = f"0-9{_LETTER}"
_LOCAL = re.compile(rf"(?<![{_WORD}._%+-])[{_WORD}._%+-]++@")
_DOMAIN = re.compile(rf"[{_WORD}.-]++")
_TOP = re.compile(rf".*\.[{_LETTER}]{{2,}}(?![{_WORD}])", re.DOTALL)


def _emails(text: str) -> Spans:
    if "@" not in text:
        return
    for local in _LOCAL.finditer(text):
        name = local.group()[:-1]
        domain = _DOMAIN.match(text, local.end())
        top = domain and _TOP.match(domain.group())
        start = local.start() + len(name) - len(name.lstrip(".%+-"))
        if top and start < local.end() - 1:
            yield start, local.end() + top.end()


_DASHES = "\\-\u2010-\u2015\u2212"
_GAP = rf"[\s{_DASHES}]"
# As they are printed on cards, the longer form before the shorter one that it begins with.
_GROUPINGS = ((4, 4, 4, 4, 3), (4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (6, 13))
_FORMS = [*(_GAP.join(f"[0-9]{{{size}}}" for size in sizes) for sizes in _GROUPINGS), "[0-9]{13,19}"]
_CARD = re.compile(rf"(?<![0-9A-Za-z_])(?:{'|'.join(_FORMS)})(?![0-9A-Za-z_])")
_LONG, _SHORT = sum(_GROUPINGS[0]) + 4, sum(_GROUPINGS[1]) + 3  # digits and gaps
_DOUBLED = str.maketrans("0123456789", "0246813579")
_NO_DIGIT = re.compile(r"[^0-9]")
# Numbers of other lengths than 16 are so often something else that they must begin as cards do.
_ISSUERS = re.compile(r"4|5[018]|6|3[0689]|3[47]|35|2131|1800")


def _cards(text: str) -> Spans:
    place = 0
    while match := _CARD.search(text, place):
        start, number = match.start(), match.group()
        candidates = (number, number[:_SHORT]) if len(number) == _LONG else (number,)
        card = next((one for one in candidates if _is_card(_NO_DIGIT.sub("", one))), "")
        place = start + (len(card) or 1)
        if card:
            yield start, place


def _is_card(digits: str) -> bool:
    return (len(digits) == 16 or bool(_ISSUERS.match(digits))) and _passes_luhn(digits)  # noqa: PLR2004 (most cards)


def _passes_luhn(digits: str) -> bool:
    total = sum(digits[-1::-2].encode()) + sum(digits[-2::-2].translate(_DOUBLED).encode())
    return (total - ord("0") * len(digits)) % 10 == 0


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"(?<![0-9A-Za-z_])(?:{_OCTET}\.){{3}}{_OCTET}(?![0-9A-Za-z_])")
_IPV6 = re.compile(r"(?<![0-9A-Za-z_])[0-9A-Fa-f:.]++(?![0-9A-Za-z_])")
_LONGEST_IPV6 = 45


def _ips(text: str) -> Spans:
    spans = sorted(
        [*_ipv6s(text), *(match.span() for match in _IPV4.finditer(text))], key=lambda span: (span[0], -span[1])
    )
    reached = 0
    for start, end in spans:
        if start >= reached:
            reached = end
            yield start, end


def _ipv6s(text: str) -> Spans:
    if ":" not in text:
        return
    for match in _IPV6.finditer(text):
        run = match.group()
        for candidate in (run, run[:-1], run.rstrip(".:")):
            if len(candidate) <= _LONGEST_IPV6 and _looks_like_ipv6(candidate) and _is_address(candidate):
                yield match.start(), match.start() + len(candidate)
                break


def _looks_like_ipv6(candidate: str) -> bool:
    # `::` alone, or `a::b`, is more often code than an address.
    return candidate.count(":") > 1 and any(char.isdigit() for char in candidate)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


_MAC = re.compile(
    r"(?<![0-9A-Za-z_])(?:(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4})(?![0-9A-Za-z_])"
)


def _macs(text: str) -> Spans:
    return (match.span() for match in _MAC.finditer(text))


# Punctuation that closes a sentence or a bracket in scripts without spaces ends an address.
_NOT_IN_URL = '\\s<>"{}|\\\\^`\\[\\]\u3001\u3002\u300a-\u3011\u201c\u201d\uff0c\uff1b'
_WITH_SCHEME = re.compile(rf"https?://[^{_NOT_IN_URL}]++", re.IGNORECASE)
_BARE = re.compile(rf"(?<![{_WORD}.-])[{_WORD}][{_WORD}.-]*+(?::[0-9]{{1,5}})?(?:/[^{_NOT_IN_URL}]*+)?")
_CLOSING = ".,;:!?'"


def _urls(text: str) -> Spans:
    reached = 0
    for match in _WITH_SCHEME.finditer(text):
        yield from _bare_urls(text, reached, match.start())
        reached = match.start() + len(match.group().rstrip(_CLOSING))
        if match.group().partition("://")[2][0] not in "/?#":
            yield match.start(), reached
    yield from _bare_urls(text, reached, len(text))


def _bare_urls(text: str, start: int, end: int) -> Spans:
    for match in _BARE.finditer(text, start, end) if text.find(".", start, end) >= 0 else ():
        url = match.group().rstrip(_CLOSING)
        host, slash, _ = url.partition("/")
        host = host.partition(":")[0].rstrip(".")
        named = host.lower().startswith("www.") and len(host) > len("www.")
        if named or (slash and ("." in host) and (host.rpartition(".")[2].isalpha() or _is_address(host))):
            yield match.start(), match.start() + len(url)


detect_email = Search("email", _emails, re.compile(rf"[{_WORD}._%+@-]"))
detect_credit_card = Search("credit_card", _cards, re.compile(rf"[0-9\s{_DASHES}]"))
detect_ip = Search("ip", _ips, re.compile(r"[0-9A-Za-z_:.]"))
detect_mac_address = Search("mac_address", _macs, re.compile(r"[0-9A-Za-z_:.-]"))
detect_url = Search("url", _urls, re.compile(rf"[^{_NOT_IN_URL}]"))

BUILT_IN: dict[str, Search] = {
    search.kind: search for search in (detect_email, detect_credit_card, detect_ip, detect_mac_address, detect_url)
}
"""The detectors by the type they find."""
