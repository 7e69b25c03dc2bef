"""A local Azure for newcomers, tests and CI."""
