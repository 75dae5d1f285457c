"""``python -m lazaretto`` is the command line."""

from lazaretto.cli import main

main()
