"""What Triton's JIT would compile a launch for: types, constants, alignment and options, from the actual arguments.

Triton decides this in `JITFunction.run`, by a binder that it generates for each kernel and that needs no driver once
it has a backend. That binder is used here, so nothing can differ; `_bind` is the one place that touches it, and
`tests/model/test_signature.py` pins the private names that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction, create_function_from_signature

#: Only options are checked against it, so the architecture that knows all of them: clusters exist from sm_90 on.
_TARGET = GPUTarget("cuda", 90, 32)
_DIVISIBLE_BY_16 = [["tt.divisibility", 16]]
#: Where an argument lies: its position, and positions inside tuples below it.
ArgumentPath = tuple[int, ...]


@dataclass(frozen=True)
class TensorStandIn:
    """Stands for a tensor of a launch where no memory is wanted. `strides` count elements, `address` bytes.

    `dtype` is torch's. Only the type and whether `address` divides by 16 reach the compiler; the rest is for
    heuristics and pruning functions, which may ask.
    """

    dtype: Any
    shape: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    address: int = 0

    def data_ptr(self) -> int:
        """The address of element 0, in bytes."""
        return self.address

    def stride(self, dim: int | None = None) -> int | tuple[int, ...]:
        """Strides in elements, or the one of `dim`."""
        return self.strides if dim is None else self.strides[dim]


@dataclass(frozen=True)
class Specialisation:
    """One version of a kernel: what Triton's JIT takes for the key of its cache.

    `signature` maps each parameter to Triton's name of its type ("*fp32", "i32", "constexpr", nested for tuples).
    `constants` and `attributes` are keyed by where the argument lies. `options` are as given at the launch or by an
    autotuner's configuration: num_warps, num_stages, num_ctas, maxnreg, ...
    """

    signature: dict[str, Any]
    constants: dict[ArgumentPath, Any]
    attributes: dict[ArgumentPath, list[list[Any]]]
    options: dict[str, Any] = field(default_factory=dict)
    #: The autotuner's configuration as Triton prints it; "" without an autotuner.
    config: str = ""

    @property
    def unaligned(self) -> tuple[str, ...]:
        """Pointers and integers that are not known to divide by 16 (bytes, for a pointer), in order.

        An element of a tuple is named like `sizes[1]`.
        """
        return tuple(
            name
            for name, path, kind in _leaves(self.signature)
            if _may_divide(kind) and self.attributes.get(path) != _DIVISIBLE_BY_16
        )

    @property
    def unaligned_pointers(self) -> tuple[str, ...]:
        """Those of `unaligned` that are pointers."""
        pointers = {name for name, _, kind in _leaves(self.signature) if isinstance(kind, str) and kind.startswith("*")}
        return tuple(name for name in self.unaligned if name in pointers)

    @property
    def wide_integers(self) -> tuple[str, ...]:
        """Integers that are passed with 64 bits, in order."""
        return tuple(name for name, _, kind in _leaves(self.signature) if kind in ("i64", "u64"))

    def assuming_aligned(self, names: Sequence[str]) -> Specialisation:
        """The same, as if these arguments were known to divide by 16. For finding out what that would change."""
        extra = {path: _DIVISIBLE_BY_16 for name, path, _ in _leaves(self.signature) if name in names}
        return Specialisation(self.signature, self.constants, self.attributes | extra, self.options, self.config)


def jit_function(kernel: Any) -> JITFunction[Any]:
    """The `@triton.jit` function inside `triton.autotune` and `triton.heuristics`.

    Raises TypeError if there is none, as for a plain function or one that was made under TRITON_INTERPRET=1.
    """
    while isinstance(kernel, (Autotuner, Heuristics)):
        kernel = kernel.fn
    if not isinstance(kernel, JITFunction):
        raise TypeError(f"{getattr(kernel, '__name__', type(kernel).__name__)} is not a @triton.jit function")
    return kernel


def specialise(
    kernel: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], *, config: int | None = None
) -> Specialisation:
    """The version of `kernel` that `kernel[grid](*arguments, **keywords)` compiles.

    With an autotuner of several configurations, `config` says which (counted after pruning, from 0).

    Raises TypeError for arguments that do not fit the parameters or are of no type that Triton takes, KeyError for
    an unknown option, ValueError where `config` is missing or an option's value
    is refused.
    """
    found = specialisations(kernel, arguments, keywords)
    if config is None and len(found) > 1:
        raise ValueError(f"the autotuner has {len(found)} configurations: say which one")
    return found[config or 0]


def specialisations(kernel: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Specialisation]:
    """All versions that a launch may compile: one for each of the autotuner's configurations, after its pruning.

    Heuristics and pruning run, and so does a configuration's `pre_hook`, as at a launch (it may set the block shape
    of a tensor descriptor). Raises what `specialise` raises, and what those functions raise.
    """
    if isinstance(kernel, Heuristics):
        keywords = dict(keywords)
        for name, value in kernel.values.items():
            keywords[name] = value({**dict(zip(kernel.arg_names, arguments, strict=False)), **keywords})
        return specialisations(kernel.fn, arguments, keywords)
    if isinstance(kernel, Autotuner):
        found = []
        for config in _configs(kernel, arguments, keywords):
            if clash := config.kwargs.keys() & keywords.keys():
                raise ValueError(f"{sorted(clash)} given at the launch and by the autotuner")
            named = {**dict(zip(kernel.arg_names, arguments, strict=False)), **keywords, **config.all_kwargs()}
            if config.pre_hook is not None:
                config.pre_hook(named)
            for inner in specialisations(kernel.fn, arguments, {**keywords, **config.all_kwargs()}):
                found.append(
                    Specialisation(inner.signature, inner.constants, inner.attributes, inner.options, str(config))
                )
        return found
    return [_bind(jit_function(kernel), arguments, keywords)]


def _configs(kernel: Autotuner, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    if len(kernel.configs) == 1:
        return list(kernel.configs)
    kernel.nargs = dict(zip(kernel.arg_names, arguments, strict=False))
    try:
        return list(kernel.prune_configs(dict(keywords)))
    finally:
        kernel.nargs = None


def _bind(kernel: JITFunction[Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Specialisation:
    """What `JITFunction.run` does before it compiles, without asking a driver for the target."""
    backend = make_backend(_TARGET)
    given = dict(keywords)
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    try:
        bound, specialisation, options = bind(*arguments, **given)
    except TypeError as error:  # the binder that Triton generates has a name that no student knows
        raise TypeError(str(error).replace("dynamic_func", kernel.__name__)) from None
    try:
        _, signature, constants, attributes = kernel._pack_args(backend, given, bound, specialisation, options)
    except AssertionError as error:  # such as "num_warps must be a power of 2"
        raise ValueError(str(error)) from None
    if kernel.debug is not None:
        options = {"debug": kernel.debug, **options}
    return Specialisation(signature, constants, attributes, dict(options))


def _leaves(signature: Mapping[str, Any]) -> Iterator[tuple[str, ArgumentPath, Any]]:
    """Each argument, and each element of an argument that is a tuple: its name, where it lies, its type."""

    def below(name: str, path: ArgumentPath, kind: Any) -> Iterator[tuple[str, ArgumentPath, Any]]:
        if isinstance(kind, tuple):
            for position, inner in enumerate(kind):
                yield from below(f"{name}[{position}]", (*path, position), inner)
        else:
            yield name, path, kind

    for position, (name, kind) in enumerate(signature.items()):
        yield from below(name, (position,), kind)


def _may_divide(kind: Any) -> bool:
    return isinstance(kind, str) and (kind.startswith("*") or kind in ("i16", "i32", "i64", "u16", "u32", "u64"))
