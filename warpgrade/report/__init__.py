"""From Verdicts to what people read. Pure functions: nothing here judges, and nothing here reads a file."""
