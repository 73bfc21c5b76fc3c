"""`python -m bertha` is the command `bertha`."""

import sys

from bertha.cli import main

sys.exit(main())
