"""This machine: the programs that are started on it, and the files that they work on."""
