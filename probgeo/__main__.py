"""`python -m probgeo` is the command `probgeo`."""

from probgeo.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
