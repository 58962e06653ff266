"""``python -m streambayes``."""

from streambayes.cli import main

if __name__ == "__main__":
    main()
