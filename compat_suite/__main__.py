"""`python -m compat_suite`: see `--help`."""

import sys

from .cli import main

sys.exit(main())
