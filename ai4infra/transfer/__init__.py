"""What a transfer with AzCopy is, as values: places, rules, schedule, outcome, verification."""
