"""``python -m siltstone`` is the command ``siltstone``."""

from siltstone.cli import main

if __name__ == "__main__":
    main()
