"""What a misspelt name may stand for."""

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = ["meant"]


def meant(name: Any, known: Iterable[Any]) -> str:
    """The known name that is most like one that is not there, as the end of a sentence; nothing if none is."""
    alike = {str(other).lower(): other for other in known}
    found = difflib.get_close_matches(str(name).lower(), alike, n=1)
    return f" (did you mean {alike[found[0]]!r}?)" if found else ""
