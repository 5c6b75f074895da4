"""Which Sandbox: the real one, or none, said loudly."""

from __future__ import annotations

import sys

from warpgrade.judge.sandbox import Sandbox

WARNING = """\
warpgrade: NO SANDBOX. The notebook's code runs as you, and can read and change everything that you can.
warpgrade: For your own code only, never for a submission. Verdicts are marked so and are never recorded as marks."""


def choose_sandbox(*, isolate: bool = True) -> Sandbox:
    """bubblewrap, or with `isolate=False` nothing, with a warning. Raises SandboxUnavailable with the reason."""
    if isolate:
        from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox

        return BubblewrapSandbox()
    from warpgrade.judge.sandbox.unsandboxed import NoSandbox

    print(WARNING, file=sys.stderr)
    return NoSandbox()
