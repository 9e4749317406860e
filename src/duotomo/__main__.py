"""`python -m duotomo` is the command `duotomo`."""

from duotomo.cli import main

if __name__ == "__main__":
    main()
