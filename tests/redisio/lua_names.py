"""Which names an include of the scripts shares with the script around it, by Lua's rules of scope.

It reads as much of Lua as that takes: blocks, declarations and names; expressions need not be understood.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import distq.redisio

LUA = Path(distq.redisio.__file__).parent / "lua"
GLOBALS = frozenset(
    {
        *("redis", "KEYS", "ARGV", "call", "math", "string", "struct", "table"),
        *("unpack", "ipairs", "pairs", "pcall", "cjson", "tonumber", "type", "true", "false", "nil"),
        *("traced", "at", "due_items", "revived_items", "taken_back", "args", "switched_off"),
    }
)
"""What every script may use; ``call`` is a local of each, and the last are of what is around each
(``traced/script.lua``). Not tostring: see ``include/now.lua``."""

_TOKEN = re.compile(
    r"(?P<include>--- @include \w+)|(?P<skip>--[^\n]*|\s+)|(?P<text>'[^'\n]*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<sign>\.\.|[=~<>]=|[^\w\s'])"
)
_KEYWORDS = frozenset(
    {
        *("and", "break", "do", "else", "elseif", "end", "for", "function", "if", "in", "local"),
        *("not", "or", "repeat", "return", "then", "until", "while"),
    }
)


class UndefinedName(Exception):  # what it is
    """A script uses names that nothing in it defines before."""

    def __init__(self, file: str, names: set[str]) -> None:
        super().__init__(f"{file}: nothing defines {', '.join(sorted(names))}")
        self.file = file


@dataclass(frozen=True)
class Token:
    """A word of a script, and the includes that it is in, outermost first."""

    text: str
    is_name: bool
    inside: tuple[int, ...]


@dataclass
class Included:
    """One inclusion of a file in a script: the names that it shares."""

    file: str
    reads: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    """Names of the surrounding script that are assigned, and own ones that it uses."""


@dataclass(frozen=True)
class _Name:
    text: str
    declared_in: tuple[int, ...]


class Script:
    """One script with all that it includes."""

    def __init__(self, file: str, text_of: dict[str, str]) -> None:
        self.included: list[Included] = []
        self.undefined: set[str] = set()
        self._text_of = text_of
        self._tokens = list(self._read(file, ()))
        self._place = 0
        self._scopes: list[dict[str, _Name]] = [{}]
        self._block({""})

    def _read(self, file: str, inside: tuple[int, ...]) -> Iterator[Token]:
        for match in _TOKEN.finditer(self._text_of[file]):
            if match["include"]:
                included = f"include/{match['include'].split()[-1]}.lua"
                self.included.append(Included(included))
                yield from self._read(included, (*inside, len(self.included) - 1))
            elif not match["skip"]:
                is_name = match["name"] is not None and match[0] not in _KEYWORDS
                yield Token(match[0], is_name, inside)

    # Tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else Token("", False, ())

    def _take(self, text: str | None = None) -> Token:
        token = self._next
        assert text is None or token.text == text, f"{token} instead of {text}"
        self._place += 1
        return token

    # Names

    def _declare(self, *tokens: Token) -> None:
        for token in tokens:
            self._scopes[-1][token.text] = _Name(token.text, token.inside)

    def _use(self, token: Token, *, assigns: bool = False) -> None:
        name = next((scope[token.text] for scope in reversed(self._scopes) if token.text in scope), None)
        if token.text in GLOBALS:
            return
        if name is None:
            self.undefined.add(token.text)
            return
        declared_in, used_in = name.declared_in, token.inside
        for number in declared_in[len(_shared(declared_in, used_in)) :]:
            self.included[number].sets.add(name.text)
        if used_in and used_in[-1] not in declared_in and declared_in[: len(used_in)] != used_in:
            included = self.included[used_in[-1]]
            (included.sets if assigns else included.reads).add(name.text)

    # Statements

    def _block(self, ends: set[str]) -> None:
        while self._next.text not in ends:
            self._statement()

    def _inner(self, *names: Token, ends: set[str]) -> None:
        self._scopes.append({})
        self._declare(*names)
        self._block(ends)
        self._scopes.pop()

    def _statement(self) -> None:
        word = self._next.text
        if word == "local":
            self._local()
        elif word in {"if", "while", "for", "repeat", "do"}:
            getattr(self, f"_{word}")()
        elif word in {"return", "break"}:
            self._take()
            self._expressions()
        else:
            self._assignment_or_call()

    def _local(self) -> None:
        self._take("local")
        if self._next.text == "function":
            self._take()
            self._declare(self._take())
            self._function_body()
            return
        names = self._names()
        if self._next.text == "=":
            self._take()
            self._expressions()
        self._declare(*names)

    def _names(self) -> list[Token]:
        names = [self._take()]
        while self._next.text == ",":
            self._take()
            names.append(self._take())
        return names

    def _if(self) -> None:
        self._take("if")
        self._expressions()
        self._take("then")
        self._inner(ends={"elseif", "else", "end"})
        while self._next.text == "elseif":
            self._take()
            self._expressions()
            self._take("then")
            self._inner(ends={"elseif", "else", "end"})
        if self._next.text == "else":
            self._take()
            self._inner(ends={"end"})
        self._take("end")

    def _while(self) -> None:
        self._take("while")
        self._expressions()
        self._do()

    def _for(self) -> None:
        self._take("for")
        names = self._names()
        self._take()  # = or in
        self._expressions()
        self._do(*names)

    def _do(self, *names: Token) -> None:
        self._take("do")
        self._inner(*names, ends={"end"})
        self._take("end")

    def _repeat(self) -> None:
        self._take("repeat")
        self._scopes.append({})
        self._block({"until"})
        self._take("until")
        self._expressions()  # sees the names of its block
        self._scopes.pop()

    def _function_body(self) -> None:
        self._take("(")
        names = self._names() if self._next.text != ")" else []
        self._take(")")
        self._inner(*names, ends={"end"})
        self._take("end")

    def _assignment_or_call(self) -> None:
        """Read ``a, b[c] = d`` or ``a(b)``."""
        self._target()
        while self._next.text == ",":
            self._take()
            self._target()
        if self._next.text == "=":
            self._take()
            self._expressions()

    def _target(self) -> None:
        """Read what is assigned or called; a name with nothing behind it is assigned."""
        name = self._take()
        self._use(name, assigns=self._next.text in {",", "="})
        while self._next.text in {".", "[", "("}:
            opens = self._take().text
            if opens == ".":
                self._take()
            else:
                closes = {"[": "]", "(": ")"}[opens]
                self._expressions(closes)
                self._take(closes)

    # Expressions: any tokens up to where a statement begins

    def _expressions(self, closes: str = "") -> None:
        depth, before, start = 0, "", self._place
        while not (closes and not depth and self._next.text == closes) and not self._at_end(
            depth, before if self._place > start else "first"
        ):
            token = self._take()
            if token.text == "function":
                self._function_body()
                before = "end"
                continue
            depth += (token.text in {"(", "[", "{"}) - (token.text in {")", "]", "}"})
            is_field = before == "." or (depth and self._next.text == "=" and before in {"{", ","})
            if token.is_name and not is_field:
                self._use(token)
            before = token.text

    def _at_end(self, depth: int, before: str = "") -> bool:
        """Return whether no expression goes on: at a keyword, or a value behind a value."""
        token = self._next
        if not token.text or (
            token.text in _KEYWORDS - {"and", "or", "not", "function"} and (not depth or token.text != "end")
        ):
            return True
        begins_value = token.is_name or token.text == "function"
        ended_value = before in {")", "]", "}", "end"} or bool(re.fullmatch(r"\w+|'.*'", before))
        return not depth and begins_value and ended_value and before not in {"first", *_KEYWORDS - {"end"}}


def _shared(one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    """Return what both begin with."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]


def sources() -> dict[str, str]:
    """Return all files, by their path below ``lua``."""
    return {str(file.relative_to(LUA)): file.read_text() for file in LUA.rglob("*.lua")}


def declared(text: str) -> tuple[set[str], set[str]]:
    """Return what an include's first lines say that it reads and sets."""
    match = re.match(r"\s*-- in:(?P<reads>(?:.|\n\s*--   )*)\n\s*-- out:(?P<sets>(?:.|\n\s*--   )*)\n", text)
    assert match, "the first lines are not -- in: and -- out:"
    return _words(match["reads"]), _words(match["sets"])


def shared_names(text_of: dict[str, str]) -> dict[str, tuple[set[str], set[str]]]:
    """Return the names that each include reads and sets, in all scripts."""
    shared: dict[str, tuple[set[str], set[str]]] = {}
    for file in text_of:
        if file.startswith("include/"):
            continue
        script = Script(file, text_of)
        if script.undefined:
            raise UndefinedName(file, script.undefined)
        for included in script.included:
            reads, sets = shared.setdefault(included.file, (set(), set()))
            reads |= included.reads
            sets |= included.sets
    return shared


def _words(names: str) -> set[str]:
    return set(re.findall(r"\w+", names)) - {"nothing"}
