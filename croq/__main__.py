"""`python -m croq`."""

from croq.cli import main

if __name__ == "__main__":
    main()
