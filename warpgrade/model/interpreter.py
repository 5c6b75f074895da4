"""Launching @triton.jit kernels on the CPU, as Python, under a Session.

A kernel stays the JITFunction that it is: nothing is set in the environment, and the same object can be compiled or
launched on a GPU before and after. `install()` hooks, once per process, what a launch goes through; outside of
`with interpreting(session):` the hooks hand on to Triton.

One launch at a time, from one thread: interpreting patches triton.language, which is the whole process's.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
import triton.testing
from triton.backends.nvidia.compiler import CUDAOptions
from triton.compiler.errors import UnsupportedLanguageConstruct
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction, TensorHandle
from triton.runtime.jit import ConstexprFunction, JITFunction, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from warpgrade.model import language
from warpgrade.model.builder import builder, semantic
from warpgrade.model.findings import NotInterpreted
from warpgrade.model.rewrite import runnable
from warpgrade.model.sanitizer import DescriptorFacts, Launch, Session, TensorFacts, Watch

_TRITON = str(Path(triton.__file__).parent)
#: CUDA's limits on a grid, programs along x, y and z.
_MOST_PROGRAMS = (2**31 - 1, 65535, 65535)

_sessions: list[Session] = []
_one_at_a_time = threading.RLock()
_running: Watch | None = None


@contextlib.contextmanager
def interpreting(session: Session) -> Iterator[Session]:
    """While active, every launch of a Triton kernel runs interpreted on CPU tensors and is recorded in `session`.

    Raises RuntimeError if `install()` was not called. A launch raises what the kernel raises, a KernelFault for what
    makes it pointless to go on, NotInterpreted for what only a GPU can run, TypeError for arguments that do not fit,
    ValueError for tensors on another device.
    """
    if not getattr(JITFunction.run, "of_warpgrade", False):
        raise RuntimeError("warpgrade.model.interpreter.install() has not been called")
    _sessions.append(session)
    try:
        yield session
    finally:
        _sessions.remove(session)
        session.forget()


def install() -> None:
    """Hook Triton's launch, autotuner and benchmark functions. A second call does nothing."""
    if getattr(JITFunction.run, "of_warpgrade", False):
        return
    language.install()
    _hook(JITFunction, "run", _run)
    _hook(JITFunction, "__call__", _call)
    # What @triton.jit makes where TRITON_INTERPRET is set, as a notebook on a laptop may do.
    _hook(
        InterpretedFunction,
        "run",
        lambda original, made, *args, **kwargs: _run(original, _jitted(made), *args, **kwargs),
    )
    _hook(InterpretedFunction, "__call__", _call)
    _hook(ConstexprFunction, "__call__", _call_with_constants)
    _hook(Autotuner, "run", _autotune)
    _hook(Autotuner, "_bench", _compare)
    timer = Autotuner.__dict__["do_bench"]  # a cached property, made of get_benchmarker, which needs a driver
    Autotuner.do_bench = property(lambda self: _time_once if _sessions else timer.__get__(self, Autotuner))
    for name in ("do_bench", "do_bench_cudagraph"):
        _hook(triton.testing, name, _bench)


def _hook(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Make `owner.name` call `replacement(original, ...)` while a session is active, else the original."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs) if _sessions else original(*args, **kwargs)

    hooked.of_warpgrade = True  # type: ignore[attr-defined]
    setattr(owner, name, hooked)


# --- the hooks --------------------------------------------------------------------------------------------------


def _run(original: Any, kernel: JITFunction[Any], *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    """JITFunction.run, where every launch arrives: also an autotuner's, and `kernel.run(...)`."""
    if not warmup:
        with _one_at_a_time:
            _launch(_sessions[-1], kernel, args, kwargs, grid)


def _jitted(made: InterpretedFunction[Any]) -> JITFunction[Any]:
    """The JITFunction of the same Python function, which knows its parameters."""
    if "of_warpgrade" not in vars(made):
        made.of_warpgrade = JITFunction(made.fn)
    return made.of_warpgrade


def _call(original: Any, function: JITFunction[Any], *args: Any, **kwargs: Any) -> Any:
    """A @triton.jit function called from a running kernel, as tl.sum is."""
    if _running is None:
        return original(function, *args, **kwargs)
    return _function(_running.session, function)(*args, **kwargs)


def _call_with_constants(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A @triton.constexpr_function, Python that the compiler runs: what a GPU would have calculated cannot reach it."""
    if _running is not None and any(isinstance(value, tl.tensor) for value in (*args, *kwargs.values())):
        raise UnsupportedLanguageConstruct(
            None, None, f"{function.__name__} is a constexpr_function, which takes constants only"
        )
    return original(function, *args, **kwargs)


def _autotune(original: Any, tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """Autotuner.run: each configuration runs once per key, then the first one's result stands.

    What was chosen here must not be remembered for a GPU, nor the other way round, so the session has a cache for it.
    """
    session = _sessions[-1]
    kept = tuner.cache, tuner.cache_results, session.zeroed, session.configurations
    tuner.cache = session.tuned.setdefault(id(tuner), (tuner, {}))[1]
    tuner.cache_results = False  # the cache on disk is for a device
    session.zeroed = session.zeroed | frozenset(tuner.reset_to_zero)
    session.configurations = len(tuner.configs)
    try:
        return original(tuner, *args, **kwargs)
    finally:
        tuner.cache, tuner.cache_results, session.zeroed, session.configurations = kept


def _compare(original: Any, tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """Autotuner._bench, which launches one configuration to see how fast it is."""
    session = _sessions[-1]
    outer, session.tuning = session.tuning, True
    try:
        return original(tuner, *args, **kwargs)
    finally:
        session.tuning = outer


def _bench(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """triton.testing.do_bench and do_bench_cudagraph, which take the same names at different places."""
    named = inspect.signature(original).bind(*args, **kwargs).arguments
    return _time_once(named["fn"], named.get("quantiles"), named.get("return_mode"))


def _time_once(function: Callable[[], Any], quantiles: Any = None, return_mode: str | None = None) -> Any:
    """Call once. Milliseconds of the interpreter, which say nothing of a GPU.

    Quantiles are all alike and made up: the autotuner asks for them, and is not to choose by the interpreter's speed.
    """
    start = time.perf_counter()
    function()
    took_ms = (time.perf_counter() - start) * 1e3
    if quantiles is not None:
        return [1.0] * len(quantiles) if len(quantiles) > 1 else 1.0
    return [took_ms] if return_mode == "all" else took_ms


# --- one launch -------------------------------------------------------------------------------------------------


def _launch(session: Session, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> None:
    global _running
    options = {name: value for name, value in kwargs.items() if name not in kernel.arg_names}
    for name in options:
        if name not in CUDAOptions.__dataclass_fields__:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    bound = kernel.signature.bind(*args, **{n: v for n, v in kwargs.items() if n not in options})
    bound.apply_defaults()
    arguments = {name: getattr(value, "value", value) if _is_constexpr(value) else value
                 for name, value in bound.arguments.items()}  # fmt: skip
    for hook in kernel.pre_run_hooks:
        hook(*args, **kwargs)
    programs = _programs(grid(arguments) if callable(grid) else grid)
    constexprs = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    launch = Launch(
        kernel,
        kernel.__name__,
        programs,
        {name: _facts(value) for name, value in arguments.items() if name not in constexprs},
        {name: value for name, value in arguments.items() if name in constexprs},
        options,
        tuned=session.configurations > 1,
        tuning=session.tuning,
    )
    tensors = [
        tensor for name, value in arguments.items() if name not in constexprs for tensor in _tensors(name, value)
    ]
    tensors += [found for name, tensor in session.reachable.items() for found in _tensors(name, tensor)]
    order = session.order(programs)
    session.launches.append(launch)
    watch = Watch(session, launch, tensors, len(order))
    function = _function(session, kernel)
    builder.watch, outer = watch, _running
    builder.set_grid_dim(*programs)
    with language.interpreted_language(), np.errstate(all="ignore"):
        _running = watch
        try:
            values = {n: v if n in constexprs else _device_value(v, n, watch) for n, v in arguments.items()}
            for program in order:
                watch.begin(program)
                builder.grid_idx = program
                function(**values)
        except NotImplementedError as error:
            if _in_kernel(error, session):
                raise
            raise NotInterpreted(str(error)) from error  # of Triton's interpreter: nobody left anything unwritten
        finally:
            _running = outer


def _function(session: Session, function: Any) -> Callable[..., Any]:
    file = function.fn.__code__.co_filename
    if not file.startswith(_TRITON):
        session.files.add(file)
    return runnable(function.fn)


def _is_constexpr(value: Any) -> bool:
    return isinstance(value, tl.constexpr)


def _programs(grid: Any) -> tuple[int, int, int]:
    if not 1 <= len(grid) <= 3:
        raise ValueError(f"a grid has 1 to 3 axes, not {len(grid)}")
    x, y, z = [operator.index(n) for n in grid] + [1] * (3 - len(grid))  # a float is refused, as by a GPU's launcher
    for axis, (n, most) in enumerate(zip((x, y, z), _MOST_PROGRAMS, strict=True)):
        if not 0 <= n <= most:
            raise ValueError(f"{n} programs along axis {axis}: CUDA allows 0 to {most}")
    return x, y, z


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "data_ptr")


def _facts(value: Any) -> Any:
    if isinstance(value, TensorDescriptor):
        shape, strides, block = (tuple(map(int, sizes)) for sizes in (value.shape, value.strides, value.block_shape))
        return DescriptorFacts(_facts(value.base), shape, strides, block, value.padding)
    if isinstance(value, tuple):
        items = [_facts(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not _is_tensor(value):
        return value
    return TensorFacts(value.dtype, tuple(value.shape), tuple(value.stride()), value.data_ptr() % 16)


def _tensors(name: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors in an argument, each with the name that a student would give it."""
    if isinstance(value, TensorDescriptor):
        return _tensors(name, value.base)
    if isinstance(value, tuple):
        return [found for i, item in enumerate(value) for found in _tensors(f"{name}[{i}]", item)]
    if not _is_tensor(value):
        return []
    tensor = getattr(value, "base", value)  # triton.reinterpret wraps a tensor
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} is on {tensor.device}; the model tier runs kernels on CPU tensors")
    return [(name, tensor)]


def _device_value(value: Any, name: str, watch: Watch) -> Any:
    """An argument as the kernel sees it: numbers and pointers become scalar tensors, the rest stays."""
    if isinstance(value, bool):
        return _scalar(value, np.bool_, tl.int1)
    if isinstance(value, int):
        return _scalar(value, *_integer_type(value))
    if isinstance(value, float):
        return _scalar(value, np.float32, tl.float32)
    if isinstance(value, TensorDescriptor):
        base = _device_value(value.base, name, watch)
        shape = [_device_value(n, name, watch) for n in value.shape]
        strides = [*(_device_value(n, name, watch) for n in value.strides[:-1]), tl.constexpr(value.strides[-1])]
        block = [tl.constexpr(n) for n in value.block_shape]
        return semantic.make_tensor_descriptor(base, shape, strides, block, value.padding)
    if isinstance(value, tuple):
        items = [_device_value(item, f"{name}[{i}]", watch) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tl.tuple(items)
    if not _is_tensor(value):
        return value
    pointer = _scalar(value.data_ptr(), np.uint64, tl.str_to_ty(mangle_type(value), None))
    pointer.handle.attr["argument"] = watch.arguments[name]
    return pointer


def _integer_type(value: int) -> tuple[Any, Any]:
    if -(2**31) <= value < 2**31:
        return np.int32, tl.int32
    return (np.int64, tl.int64) if value < 2**63 else (np.uint64, tl.uint64)


def _scalar(value: Any, numpy_type: Any, dtype: Any) -> Any:
    return tl.tensor(TensorHandle(np.array([value], numpy_type), dtype), dtype)


def _in_kernel(error: BaseException, session: Session) -> bool:
    """Whether it was raised by the student's own line, as `raise NotImplementedError` in a kernel not written yet."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_filename in session.files


def source_line(error: BaseException, session: Session) -> tuple[str, int] | None:
    """(file, line) of the innermost line of kernel code in an error's traceback; None if there is none."""
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in session.files:
            found = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return found
