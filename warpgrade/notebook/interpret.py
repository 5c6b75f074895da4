"""`interpret`: a notebook's own kernels, run on the CPU under the sanitizer, whether or not there is a GPU."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpgrade.notebook.checks import Plain

if TYPE_CHECKING:
    from warpgrade.model.findings import Finding
    from warpgrade.model.sanitizer import Session


class KernelFailed(Plain, RuntimeError):  # noqa: N818 - names what happened
    """A kernel did what makes it pointless to go on, such as an access outside of its tensor."""


@contextlib.contextmanager
def interpret(seed: int | None = None) -> Iterator[None]:
    """Run each Triton kernel that is launched inside on the CPU, program by program, and print what is wrong with it.

    Printed on leaving: for each kernel the memory that it moved, and what the sanitizer found (accesses out of bounds,
    races between programs, memory that was read before it was written, integers that overflow), with the line in its
    cell. bfloat16 is rounded as on a GPU. Outside, the same kernel is launched on the GPU, as ever.

    Tensors must be on the CPU. `seed` chooses the order in which programs run; without one it is another each time.
    Raises KernelFailed where a kernel cannot go on, ValueError for a tensor on a GPU, and what the cell itself raises.
    """
    # Imported here: importing the course's package must not import torch and triton before TRITON_INTERPRET is set.
    import secrets

    from warpgrade.model.findings import KernelFault
    from warpgrade.model.interpreter import install, interpreting
    from warpgrade.model.sanitizer import Session

    install()
    session = Session(seed=secrets.randbits(32) if seed is None else seed)
    try:
        with interpreting(session):
            yield
    except KernelFault as error:
        raise KernelFailed(_told(error.finding)) from error
    finally:
        print("\n".join(_report(session)))


def _report(session: Session) -> list[str]:
    from warpgrade.model.sanitizer import traffic_of
    from warpgrade.report.kernels import traffic_lines

    names = dict.fromkeys(launch.name for launch in session.launches)
    lines = [] if names else ["No Triton kernel was launched."]
    for name in names:
        launches = [launch for launch in session.launches if launch.name == name]
        programs = sum(x * y * z for x, y, z in (launch.grid for launch in launches))
        often = f"{len(launches)} launches" if len(launches) > 1 else "1 launch"
        lines.append(f"{name}, interpreted: {often}, {programs:,} program{'s' * (programs != 1)}")
        lines += [f"  {line}" for line in traffic_lines(traffic_of(launches))]
    lines += [f"FOUND: {_told(finding)}" for finding in session.findings]
    return lines if session.findings or not names else [*lines, "Nothing wrong was found."]


def _told(finding: Finding) -> str:
    from warpgrade.model.findings import sentence

    source = linecache.getline(*finding.line).strip() if finding.line else ""
    return sentence(finding) + (f"\n    {source}" if source else "")
