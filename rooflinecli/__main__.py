"""`python -m rooflinecli`: the command `roofline` where its script is not on the path."""

from rooflinecli.interfaces.cli.main import run

if __name__ == "__main__":
    run()
