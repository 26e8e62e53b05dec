"""`python -m cocanet` is the command `coca`."""

from cocanet.cli import main

if __name__ == "__main__":
    main()
