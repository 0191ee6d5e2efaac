"""The bits of a key within its block of 512, eight words at once.

Written as vector operations of LLVM, because the loop over eight words is not turned into any: these take
a third of its time. Where a processor has no vectors of that width LLVM splits them.

With one bit a word, bit ``lower >> 6 w & 63`` of word w is the key's. With two, the other one stands
``1 + (more >> 6 w & 63) * 63 // 64`` places further on, so that the two never meet.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

BLOCK_WORDS = 8

_WORD = ir.IntType(64)
_LINE = ir.VectorType(_WORD, BLOCK_WORDS)
_SHIFTS = [6 * word for word in range(BLOCK_WORDS)]
_FIRST = ir.Constant(ir.IntType(32), 0)
_EVERYWHERE = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK_WORDS), [_FIRST] * BLOCK_WORDS)
_REDUCE = "llvm.vector.reduce.or.v8i64"


@intrinsic  # type: ignore[untyped-decorator]
def missing_single(typing: Any, words: Any, block: Any, lower: Any) -> Any:
    """Return a number other than 0 where ``words[block:block + 8]`` lacks one of the key's eight bits.

    The caller answers for ``block + 8 <= len(words)`` and for words that begin at a multiple of 64 bytes.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _missing(builder, _place(context, builder, signature, arguments), _single(builder, arguments[2]))

    return types.uint64(words, block, types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def set_single(typing: Any, words: Any, block: Any, lower: Any) -> Any:
    """Set the key's eight bits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _set(builder, _place(context, builder, signature, arguments), _single(builder, arguments[2]))
        return context.get_dummy_value()

    return types.void(words, block, types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def missing_double(typing: Any, words: Any, block: Any, lower: Any, more: Any) -> Any:
    """Return a number other than 0 where the block lacks one of the key's sixteen bits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _missing(builder, _place(context, builder, signature, arguments), _double(builder, *arguments[2:]))

    return types.uint64(words, block, types.uint64, types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def set_double(typing: Any, words: Any, block: Any, lower: Any, more: Any) -> Any:
    """Set the key's sixteen bits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _set(builder, _place(context, builder, signature, arguments), _double(builder, *arguments[2:]))
        return context.get_dummy_value()

    return types.void(words, block, types.uint64, types.uint64), emit


def _all(value: int) -> Any:
    return ir.Constant(_LINE, [ir.Constant(_WORD, value)] * BLOCK_WORDS)


def _sixes(builder: Any, number: Any) -> Any:
    """Six bits of one number for each word."""
    index = ir.IntType(32)
    alone = builder.insert_element(ir.Constant(_LINE, ir.Undefined), number, index(0))
    spread = builder.shuffle_vector(
        alone, alone, ir.Constant(ir.VectorType(index, BLOCK_WORDS), [index(0)] * BLOCK_WORDS)
    )
    shifts = ir.Constant(_LINE, [ir.Constant(_WORD, shift) for shift in _SHIFTS])
    return builder.and_(builder.lshr(spread, shifts), _all(63))


def _single(builder: Any, lower: Any) -> Any:
    return builder.shl(_all(1), _sixes(builder, lower))


def _double(builder: Any, lower: Any, more: Any) -> Any:
    first = _sixes(builder, lower)
    step = builder.add(_all(1), builder.lshr(builder.mul(_sixes(builder, more), _all(63)), _all(6)))
    second = builder.and_(builder.add(first, step), _all(63))
    return builder.or_(builder.shl(_all(1), first), builder.shl(_all(1), second))


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    view = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(view.data, [arguments[1]]), _LINE.as_pointer())


def _missing(builder: Any, place: Any, bits: Any) -> Any:
    absent = builder.and_(bits, builder.not_(builder.load(place, align=64)))
    reduce = builder.module.globals.get(_REDUCE)
    if reduce is None:
        reduce = ir.Function(builder.module, ir.FunctionType(_WORD, [_LINE]), _REDUCE)
    return builder.call(reduce, [absent])


def _set(builder: Any, place: Any, bits: Any) -> None:
    builder.store(builder.or_(builder.load(place, align=64), bits), place, align=64)
