"""Pages of the documentation: their fenced blocks, and whether code prints what is shown below it."""

import math
import re
from typing import NamedTuple

FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Block(NamedTuple):
    """One fenced block, the line of its first line of content, and the output below it, if any."""

    kind: str
    body: str
    line: int
    output: str | None


def blocks(page):
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    for place, fence in enumerate(fences):
        following = fences[place + 1] if place + 1 < len(fences) else None
        output = None
        if following is not None and following["kind"].strip() == "text":
            between = text[fence.end() : following.start()]
            output = None if between.strip() else following["body"]
        line = text.count("\n", 0, fence.start("body"))
        yield Block(fence["kind"].strip(), fence["body"], line, output)


def same_text(printed, shown):
    """Whether two texts agree but for the width of spaces, numbers to three digits."""
    ours, theirs = (_NUMBER.sub("#", " ".join(text.split())) for text in (printed, shown))
    numbers = zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=False)
    return ours == theirs and all(
        math.isclose(float(mine), float(other), rel_tol=1e-3, abs_tol=1e-9)
        for mine, other in numbers
    )


def run_page(page, kind, namespace, printed):
    """Run the blocks of one kind in order; all others are compiled.

    ``printed`` returns what was printed since it was asked last.
    """
    for block in blocks(page):
        if not block.kind.startswith("python"):
            continue
        code = compile("\n" * block.line + block.body, str(page), "exec")
        if block.kind != kind:
            continue
        exec(code, namespace)  # noqa: S102  # our own pages
        told = printed()
        if block.output is not None:
            shown = f"{page}:{block.line}: the page shows another output than\n{told}"
            assert same_text(told, block.output), shown
