"""The work behind the commands; `probgeo.cli` parses, calls and prints."""
