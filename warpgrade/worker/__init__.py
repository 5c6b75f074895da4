"""The untrusted side: the only process that runs student code. It lives in the Sandbox and answers calls.

Of warpgrade it imports `wire` and `model` only (a test says so). Nothing that it says is believed: the Judge checks
every answer, times it, and treats the Worker's own observations as hints.
"""
