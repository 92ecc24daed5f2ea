"""What the commands for tables of numbers do; `probgeo.cli` is their face."""
