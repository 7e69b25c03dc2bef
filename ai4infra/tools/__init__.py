"""This machine: the only package that starts other programs, and looks at local files."""
