"""`python -m hucrl_ros`: the same as `hucrl`."""

import sys

from hucrl_ros.cli import main

sys.exit(main())
