"""``python -m sitta``."""

from sitta.cli import main

if __name__ == "__main__":
    main()
