"""`python -m scaletest.cli`."""

from scaletest.cli.app import main

main()
