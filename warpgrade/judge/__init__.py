"""The trusted side: it holds references, inputs, tolerances, the clock and the score. No student code is imported here."""
