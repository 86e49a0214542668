"""`python -m prefkit` is `prefkit`."""

from __future__ import annotations

import sys

from prefkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
