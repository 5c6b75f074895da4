"""Who did the work? On the model tier a lint: what the Worker saw of torch during a call, and whether a kernel ran.

Made in the student's process, so it can be forged; marks made on this tier are provisional where a GPU run follows,
and there library kernels are physically absent (design/architecture, "The wall", 6).
"""

from __future__ import annotations

import torch

from warpgrade.course import Exercise, Form
from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
from warpgrade.wire.messages import Returned

#: aten operations that allocate, look at a tensor in another way, or fill it with a constant. Everything else computes.
#: Copies are here because contiguous ones work without device code on the GPU tier as well; the Worker names a copy
#: that changes the dtype or the strides differently ("copy_ to another dtype"), so that it is not harmless.
HARMLESS = frozenset(
    """
    empty empty_like empty_strided new_empty new_empty_strided
    zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full fill_ zero_ scalar_tensor lift_fresh
    resize_ set_ alias detach view _unsafe_view reshape as_strided expand permute transpose t select slice squeeze
    unsqueeze unfold split split_with_sizes unbind diagonal view_as_real view_as_complex
    clone copy_ _to_copy _local_scalar_dense is_same_size is_pinned _pin_memory record_stream
    """.split()  # noqa: SIM905 - a table is read more easily than fifty quoted words
)


#: Elements that a call may read as Python numbers: a size, a flag or two scales are read honestly. Data is not.
MAX_ELEMENTS_READ = 8


def _is_operation(name: str) -> bool:
    base = name.removesuffix(" to another dtype").removesuffix(" to other strides").removeprefix("Tensor.")
    return base.isidentifier() and (hasattr(torch.Tensor, base) or hasattr(torch.ops.aten, base))


def check_own_work(exercise: Exercise, answer: Returned, *, empty: bool, new_tensor: bool = False) -> None:
    """Raise a `refused` Failure where torch or Python computed, or no kernel did although there was something to do.

    `empty`: there was nothing to do. `new_tensor`: the contract says that the call returns one of its own.
    """
    if not exercise.own_kernel or exercise.form is Form.PLAIN:
        return
    computing = [
        name for name in answer.torch_operations if name not in HARMLESS or name in exercise.forbidden_operations
    ]
    if computing:
        # One name, and a real one: what the Worker says could hold the inputs, and this sentence is for the student.
        names = next((name for name in computing if _is_operation(name)), "an operation")
        raise Failure(
            Outcome.REFUSED,
            f"PyTorch did work inside the call ({names}). Your own Triton kernel has to do it; allocating with "
            "torch.empty and taking views is fine.",
            evidence={"torch operations": ", ".join(computing)},
        )
    if answer.kernel_launches == 0 and not empty:
        raise Failure(
            Outcome.REFUSED, "No Triton kernel was launched during the call: your own kernel has to do the work."
        )
    if answer.elements_read > MAX_ELEMENTS_READ:
        raise Failure(
            Outcome.REFUSED,
            f"The call read more than {MAX_ELEMENTS_READ} elements of tensors in Python (.item(), float(...), `if`, a "
            "loop over elements). Reading a flag or a scale is fine; your own Triton kernel has to load the data.",
            evidence={"elements read": str(answer.elements_read)},
        )
    if new_tensor and not empty and not answer.result_stored:
        raise Failure(
            Outcome.REFUSED,
            "No Triton kernel stored to the tensor that the call returned: your own kernel has to write the result. Is "
            "another tensor returned than the one that the kernel was given, or is a tl.store missing?",
        )
