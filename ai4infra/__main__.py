"""``python -m ai4infra``: the command line."""

from ai4infra.cli.main import run

if __name__ == "__main__":
    run()
