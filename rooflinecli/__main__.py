"""`python -m rooflinecli`: the command `roofline` where its script is not on the path."""

import sys

from rooflinecli.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
