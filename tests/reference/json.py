"""How large a value is as JSON: write it, and measure."""

import json

from reference.tokens import text_size


def json_size(value: object) -> tuple[int, int]:
    """Bytes and code points of *value* as compact JSON without ASCII escapes."""
    return text_size(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
