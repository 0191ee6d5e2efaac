"""The one place where kernels are compiled.

A kernel is a pure function over numpy arrays: no file, no clock, no Python object. It releases the
interpreter lock, so batches run on as many threads as there are, and it is compiled once per machine:
numba keeps the machine code beside the package, or in the user's cache folder where the package
cannot be written. Where neither can be written numba raises while decorating, that is at import; then
the kernel is compiled anew in each run instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

Bytes = npt.NDArray[np.uint8]
UInt16 = npt.NDArray[np.uint16]
UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


def kernel(function: Function) -> Function:
    """Return ``function`` compiled by numba: no Python objects, no interpreter lock, cached on disk.

    Falls back to an uncached compilation where no cache folder can be written.
    """
    try:
        compiled: Function = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        compiled = numba.njit(nogil=True, cache=False)(function)
    return compiled


def is_compiled(function: Callable[..., Any]) -> bool:
    """Return whether a kernel has machine code in this process: compiled, or loaded from the cache."""
    return bool(getattr(function, "signatures", True))


def inlined(function: Function) -> Function:
    """Return ``function`` compiled like `kernel`, for small functions that kernels call."""
    try:
        compiled: Function = numba.njit(nogil=True, cache=True, inline="never", forceinline=True)(function)
    except RuntimeError:
        compiled = numba.njit(nogil=True, cache=False, inline="never", forceinline=True)(function)
    return compiled


@intrinsic  # type: ignore[untyped-decorator]
def load64(typing: Any, array: Any, index: Any) -> Any:
    """Return the 8 bytes at ``array[index]`` as a little-endian uint64, whatever the alignment.

    The caller answers for ``index + 8 <= len(array)``. Little-endian machines only (x86-64, ARM64).
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(view.data, [arguments[1]])
        return builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(array, index), emit


@intrinsic  # type: ignore[untyped-decorator]
def load32(typing: Any, array: Any, index: Any) -> Any:
    """Return the 4 bytes at ``array[index]`` as a little-endian uint32, whatever the alignment."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(view.data, [arguments[1]])
        return builder.load(builder.bitcast(pointer, ir.IntType(32).as_pointer()), align=1)

    return types.uint32(array, index), emit


@intrinsic  # type: ignore[untyped-decorator]
def high_product(typing: Any, left: Any, right: Any) -> Any:
    """Return the upper 64 bits of the 128-bit product of two uint64."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Ask the processor for the cache line of ``array[index]``, to be written; changes nothing."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(view.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(function, [pointer, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, index), emit
