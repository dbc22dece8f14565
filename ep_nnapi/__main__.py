"""`python -m ep_nnapi VERB ...` is `ep-nnapi VERB ...`."""

import sys

from ep_nnapi.cli import main

sys.exit(main())
