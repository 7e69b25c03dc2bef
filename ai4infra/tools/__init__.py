"""The only package that starts other programs."""
