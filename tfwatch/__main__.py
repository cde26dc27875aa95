"""The entry point of `python -m tfwatch`."""

from __future__ import annotations

import sys

from tfwatch.cli import main

if __name__ == "__main__":
    sys.exit(main())
