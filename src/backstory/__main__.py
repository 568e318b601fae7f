"""`python -m backstory`."""

from backstory.cli.main import main

main()
