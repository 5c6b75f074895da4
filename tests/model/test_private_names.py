"""What warpgrade/model rests on in Triton, and once in torch, that is no public API.

When this fails after an upgrade: look at the file that the message names, and at what the name is used for.
"""

import importlib
import inspect
import sys

import pytest
import torch
import triton
import triton.language as tl

from warpgrade.model.interpreter import install

install()
SAME = "any"
INTERPRETER = "triton.runtime.interpreter"
BUILDER = f"{INTERPRETER}:InterpreterBuilder"
#: name, parameters (None: existence only), file of warpgrade/model, what for
NAMES = [
    (f"{INTERPRETER}:TensorHandle", ["data", "dtype", "attr"], "builder.py", "values, whose `attr` carries facts"),
    (f"{INTERPRETER}:TensorHandle.get_element_ty", ["self"], "sanitizer.py", "size of what a pointer points to"),
    (f"{INTERPRETER}:TensorDescHandle.materialize_pointers", None, "language.py", "provenance of descriptors"),
    (f"{INTERPRETER}:_get_np_dtype", ["tt_dtype"], "builder.py", "results of libdevice"),
    (f"{INTERPRETER}:InterpreterOptions", None, "builder.py", "debug=True turns device_assert on"),
    (f"{INTERPRETER}:ReduceOps", ["axis", "combine_fn", "keep_dims"], "language.py", "tl.reduce"),
    (f"{INTERPRETER}:ReduceOps.apply", ["self", "input"], "language.py", "tl.reduce"),
    (f"{INTERPRETER}:ReduceOps.sum", ["self", "input"], "language.py", "16-bit sums round at each step"),
    (f"{INTERPRETER}:ReduceOps.generic_reduce", ["self", "input"], "language.py", "other bf16 reductions"),
    (f"{INTERPRETER}:ReduceOps.to_tensor", ["self", "ret", "dtype"], "language.py", "results of 16-bit sums"),
    (f"{INTERPRETER}:ScanOps", ["axis", "combine_fn", "reverse"], "language.py", "tl.associative_scan"),
    (f"{INTERPRETER}:ScanOps.generic_scan", ["self", "input"], "language.py", "bf16 scans"),
    (f"{INTERPRETER}:ScanOps.cumsum", ["self", "input"], "language.py", "bf16 scans"),
    (f"{INTERPRETER}:ScanOps.cumprod", ["self", "input"], "language.py", "bf16 scans"),
    (f"{INTERPRETER}:_LangPatchScope", [], "language.py", "collects triton's patches"),
    (f"{INTERPRETER}:_patch_lang_tensor", ["tensor", "scope"], "language.py", "bool, index, str of tensors"),
    (f"{INTERPRETER}:_patch_lang_core", ["lang", "scope"], "language.py", "ranges, static_print, dtype.to_ir"),
    (f"{BUILDER}.create_masked_load", ["self", "ptrs", "mask", "other", "cache_modifier", "eviction_policy", "is_volatile"], "builder.py", "checks loads"),
    (f"{BUILDER}.create_masked_store", ["self", "ptrs", "value", "mask", "cache_modifier", "eviction_policy"], "builder.py", "checks stores"),
    (f"{BUILDER}.create_load", ["self", "ptr", "_0", "_1", "is_volatile"], "builder.py", "must end in create_masked_load"),
    (f"{BUILDER}.create_store", ["self", "ptr", "val", "_0", "_1"], "builder.py", "must end in create_masked_store"),
    (f"{BUILDER}.create_atomic_rmw", ["self", "rmwOp", "ptr", "val", "mask", "sem", "scope"], "builder.py", "checks atomics"),
    (f"{BUILDER}.create_atomic_cas", ["self", "ptr", "cmp", "val", "sem", "scope"], "builder.py", "checks atomics"),
    (f"{BUILDER}.create_assert", ["self", "condition", "message"], "builder.py", "device_assert"),
    (f"{BUILDER}.create_assume", ["self", "condition"], "builder.py", "tl.assume"),
    (f"{BUILDER}.create_splat", ["self", "ret_ty", "arg"], "builder.py", "facts of splats"),
    (f"{BUILDER}.create_unsplat", ["self", "arg"], "builder.py", "facts"),
    (f"{BUILDER}.create_expand_dims", ["self", "arg", "axis"], "builder.py", "facts"),
    (f"{BUILDER}.create_broadcast", ["self", "arg", "shape"], "builder.py", "facts"),
    (f"{BUILDER}.create_reshape", ["self", "arg", "shape", "allow_reorder"], "builder.py", "facts"),
    (f"{BUILDER}.create_trans", ["self", "arg", "perm"], "builder.py", "facts"),
    (f"{BUILDER}.create_bitcast", ["self", "src", "dst_type"], "builder.py", "facts"),
    (f"{BUILDER}.create_int_to_ptr", ["self", "src", "dst_type"], "builder.py", "facts"),
    (f"{BUILDER}.create_ptr_to_int", ["self", "src", "dst_type"], "builder.py", "facts"),
    (f"{BUILDER}.create_addptr", ["self", "ptr", "offset"], "builder.py", "facts of pointer arithmetic"),
    (f"{BUILDER}.create_cat", ["self", "lhs", "rhs"], "builder.py", "facts"),
    (f"{BUILDER}.create_join", ["self", "lhs", "rhs"], "builder.py", "facts"),
    (f"{BUILDER}.create_split", ["self", "val"], "builder.py", "facts"),
    (f"{BUILDER}.create_gather", ["self", "src", "indices", "axis"], "builder.py", "facts"),
    (f"{BUILDER}.create_and", ["self", "lhs", "rhs"], "builder.py", "facts of masks"),
    (f"{BUILDER}.binary_op", ["self", "lhs", "rhs", "op"], "bfloat16.py, builder.py", "bf16 arithmetic and facts"),
    (f"{BUILDER}.unary_op", ["self", "arg", "op"], "bfloat16.py, builder.py", "bf16 arithmetic and facts"),
    (f"{BUILDER}.ternary_op", ["self", "lhs", "rhs", "other", "op"], "builder.py", "tl.where"),
    (f"{BUILDER}.create_select", ["self", "cond", "lhs", "rhs"], "builder.py", "must end in ternary_op"),
    (f"{BUILDER}.cast_impl", ["self", "src", "dst_type"], "bfloat16.py", "bf16 casts"),
    (f"{BUILDER}.create_fp_to_fp", ["self", "src", "dst_type", "rounding_mode"], "bfloat16.py", "bf16 casts"),
    (f"{BUILDER}.create_fma", ["self", "x", "y", "z"], "bfloat16.py", "bf16 fma"),
    (f"{BUILDER}.create_clampf", ["self", "arg", "lo", "hi", "propagate_nans"], "bfloat16.py", "tl.clamp"),
    (f"{BUILDER}.create_minnumf", ["self", "lhs", "rhs"], "bfloat16.py", "tl.minimum"),
    (f"{BUILDER}.create_maxnumf", ["self", "lhs", "rhs"], "bfloat16.py", "tl.maximum"),
    (f"{BUILDER}.create_dot", ["self", "a", "b", "d", "input_precision", "max_num_imprecise_acc"], "bfloat16.py", "bf16 dots"),
    (f"{BUILDER}.create_idiv", ["self", "lhs", "rhs"], "bfloat16.py", "integer division"),
    (f"{BUILDER}.create_ashr", ["self", "lhs", "rhs"], "builder.py", "facts"),
    (f"{BUILDER}.create_umulhi", ["self", "lhs", "rhs"], "builder.py", "facts"),
    (f"{BUILDER}.create_fabs", ["self", "arg"], "builder.py", "facts"),
    (f"{BUILDER}.create_erf", ["self", "arg"], "builder.py", "facts"),
    (f"{BUILDER}.create_rsqrt", ["self", "arg"], "builder.py", "facts"),
    (f"{BUILDER}.set_grid_dim", ["self", "nx", "ny", "nz"], "interpreter.py", "tl.num_programs"),
    ("triton._C.libtriton:interpreter.load", None, "bfloat16.py", "bf16 atomics"),
    ("triton._C.libtriton:interpreter.store", None, "bfloat16.py", "bf16 atomics"),
    ("triton._C.libtriton:ir.MEM_SEMANTIC.ACQUIRE_RELEASE", None, "builder.py", "which atomics order programs"),
    ("triton._C.libtriton:ir.ATOMIC_OP.XCHG", None, "bfloat16.py", "bf16 atomics"),
    ("triton._C.libtriton:ir.PROPAGATE_NAN.NONE", None, "bfloat16.py", "tl.clamp"),
    ("triton._C.libtriton:ir.ROUNDING_MODE.RTZ", None, "bfloat16.py", "bf16 casts"),
    ("triton.language.semantic:TritonSemantic.load", ["self", "ptr", "mask", "other", "boundary_check", "padding_option", "cache_modifier", "eviction_policy", "is_volatile"], "builder.py", "whether other was given"),
    ("triton.language.semantic:TritonSemantic.dot", ["self", "lhs", "rhs", "acc", "input_precision", SAME], "builder.py", "sizes and precision of dots"),
    ("triton.language.semantic:TritonSemantic.binary_op_sanitize_overflow_impl", ["self", "lhs", "rhs", "binary_op"], "builder.py", "int32 overflow"),
    ("triton.language.semantic:TritonSemantic.to_tensor", ["self", "x", "check_type"], "rewrite.py", "assigned numbers"),
    ("triton.language.semantic:TritonSemantic.device_assert", ["self", "cond", "msg", "mask"], "rewrite.py", "assert in kernels"),
    ("triton.language.semantic:TritonSemantic.permute", ["self", "input", "dims"], "language.py", "tensor.T"),
    ("triton.language.semantic:TritonSemantic.make_tensor_descriptor", ["self", "base", "shape", "strides", "block_shape", "padding_option"], "interpreter.py", "descriptors of the host"),
    ("triton.language.core:is_builtin", ["fn"], "language.py", "what needs our semantic"),
    ("triton.language.core:tensor_descriptor_base", None, "language.py", "methods of descriptors"),
    ("triton.language.core:tensor.logical_and", None, "rewrite.py", "`and` on blocks"),
    ("triton.language.core:tensor.__not__", None, "rewrite.py", "`not` on blocks"),
    ("triton.language:str_to_ty", ["name", "c"], "interpreter.py", "types of pointers"),
    ("triton.language.standard:_sum_combine", None, "language.py", "which reduction is a sum"),
    ("triton.runtime.jit:mangle_type", ["arg", SAME], "interpreter.py", "types of pointers"),
    ("triton.backends.nvidia.compiler:min_dot_size", ["target"], "builder.py", "tiles that CUDA refuses"),
    ("triton.backends.nvidia.compiler:CUDAOptions.__dataclass_fields__", None, "interpreter.py", "which options a launch may have"),
    ("triton.compiler.errors:CompileTimeAssertionFailure", ["src", "node", "error_message"], "language.py", "static_assert"),
    ("triton.compiler.errors:UnsupportedLanguageConstruct", ["src", "node", "error_message"], "rewrite.py", "refused Python"),
    ("triton.runtime.jit:JITFunction.run", ["self", "args", "grid", "warmup", "kwargs"], "interpreter.py", "where a launch arrives"),
    ("triton.runtime.jit:JITFunction.__call__", ["self", "args", "kwargs"], "interpreter.py", "calls of device functions"),
    ("triton.runtime.jit:ConstexprFunction.__call__", ["self", "args", "_semantic", "kwargs"], "interpreter.py", "constants out of a launch"),
    ("torch.utils._python_dispatch:_disable_current_modes", [], "libdevice.py", "our own torch is not the student's"),
    ("triton.runtime.autotuner:Autotuner.run", ["self", "args", "kwargs"], "interpreter.py", "all configurations"),
    ("triton.runtime.autotuner:Autotuner._bench", ["self", "args", "config", "meta"], "interpreter.py", "must call do_bench(call, quantiles=...)"),
    ("triton.testing:do_bench", ["fn", "warmup", "rep", "grad_to_none", "quantiles", "return_mode"], "interpreter.py", "benchmarks without a driver"),
    ("triton.testing:do_bench_cudagraph", ["fn", "rep", "grad_to_none", "quantiles", "return_mode"], "interpreter.py", "benchmarks without a driver"),
    ("triton.tools.tensor_descriptor:TensorDescriptor", None, "interpreter.py", "descriptors of the host"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "file", "purpose"), NAMES, ids=[row[0] for row in NAMES])
def test_a_private_name_is_what_it_was(name, parameters, file, purpose):
    hint = f"triton {triton.__version__}, torch {torch.__version__}: {name} changed: look at warpgrade/model/{file}, which uses it for: {purpose}"
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        assert hasattr(found, part), hint
        found = getattr(found, part)
    if parameters is not None:
        actual = list(inspect.signature(found).parameters)
        if parameters[-1:] == [SAME]:  # what follows is handed on as it is
            parameters, actual = parameters[:-1], actual[: len(parameters) - 1]
        assert actual == parameters, hint


ATTRIBUTES = [
    ("JITFunction", ["fn", "arg_names", "signature", "params", "pre_run_hooks", "__name__"], "interpreter.py", "binding arguments"),
    ("Autotuner", ["cache", "cache_results", "reset_to_zero", "_do_bench", "fn", "configs"], "interpreter.py", "a cache for each session"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "attributes", "file", "purpose"), ATTRIBUTES, ids=[row[0] for row in ATTRIBUTES])
def test_private_attributes(kind, attributes, file, purpose):
    @triton.jit
    def kernel(x, N: tl.constexpr):
        pass

    found = kernel if kind == "JITFunction" else triton.autotune([triton.Config({"N": 1})], key=[])(kernel)
    missing = [name for name in attributes if not hasattr(found, name)]
    hint = f"triton {triton.__version__}: {kind} has no {missing}: look at warpgrade/model/{file}, which uses them for: {purpose}"
    assert not missing, hint
    if kind == "JITFunction":
        assert [parameter.is_constexpr for parameter in found.params] == [False, True], hint


def test_the_compiler_is_imported_before_a_launch():
    """warpgrade/model/language.py: imported during a launch, it would take the replaced functions for triton's own."""
    assert "triton.compiler.code_generator" in sys.modules
