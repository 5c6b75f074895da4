"""The trusted side: it holds references, inputs, tolerances, clock and score. No student code is imported here."""
