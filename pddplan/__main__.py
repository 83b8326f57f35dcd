"""``python -m pddplan`` is ``pddplan``."""

from pddplan.cli.main import main

main()
