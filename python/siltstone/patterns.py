"""Regular expressions that are compiled when they are first used.

The modules of a session have about fifty expressions, and most processes use only a few. Compiling all took a
fifth of the time until the first session of a process.
"""

from __future__ import annotations

__all__ = ["pattern"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

    def pattern(text: str, flags: int | re.RegexFlag = 0) -> re.Pattern[str]:
        """``re.compile``."""

else:

    class pattern:  # noqa: N801 - to whoever reads the code it is a function
        """``re.compile``, when something of it is first asked for."""

        def __init__(self, text: str, flags: int | re.RegexFlag = 0) -> None:
            self._made_of = (text, flags)

        def __getattr__(self, name: str) -> Any:
            # The compiled expression is kept here, so the next caller does not come by.
            import re

            value = getattr(re.compile(*self._made_of), name)
            setattr(self, name, value)
            return value

        def __reduce__(self) -> Any:
            return pattern, self._made_of

        def __repr__(self) -> str:
            import re

            return repr(re.compile(*self._made_of))
