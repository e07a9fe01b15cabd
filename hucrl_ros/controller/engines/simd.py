"""Vector code for small networks: LLVM instructions that numba puts into the planning kernel.

A register holds one quantity of several particles. So a layer reads each weight once for all of
them, nothing has to be shuffled, and a network of any width runs near the processor's peak. Only
LLVM's generic vectors are used; it turns them into AVX-512, AVX2 or NEON. Sums run in the same
order on each, and in any number of threads.

Addresses are int64, and `(rows, LANES)` arrays are what they point to: of float32, but for a
Gaussian process, whose variance is a small difference of large sums, of float64.

numba keeps the kernel's machine code until kernel.py changes: after a change here alone, delete
`__pycache__`.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

_FEATURES: str = config.CPU_FEATURES or llvm.get_host_cpu_features().flatten()
WIDE = "+avx512f" in _FEATURES
"""Whether a register holds 16 numbers and there are 32 of them."""
VECTOR = 16 if WIDE else 8
"""Particles in a vector."""
LANES = 2 * VECTOR
"""Particles that are worked on together: two vectors hide the latency of a sum."""
BLOCK = 8 if WIDE else 4
"""Outputs of a layer that are summed together: with `LANES`, or a vector in double precision, they
fill half of the registers. With more of them sums move to memory and back, at half the speed."""
PAIR = 2
"""Outputs of the smaller blocks that end a layer."""
ROW_BYTES = 4 * LANES

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(_FLOAT, VECTOR), ir.VectorType(_INT32, VECTOR)
_DOUBLE = ir.DoubleType()
_DOUBLES, _LONGS = ir.VectorType(_DOUBLE, VECTOR), ir.VectorType(_INT64, VECTOR)
_LOG2_E = 1.4426950408889634
_LN_2_HIGH, _LN_2_LOW = 0.693359375, -2.12194440e-4
_ROUNDING = 1.5 * 2.0**23
"""Adding it leaves the nearest integer in the low bits."""
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 0.16666665459, 0.5)
_SERIES = (1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
"""Of artanh."""
_LN_2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
"""Parts of ln 2 whose sum has more digits than a double; the first times n is exact."""
_TERMS = 12
"""Highest power of exp's series in double precision."""
_HALF_PI = (1.57079637050628662109375, -4.37113900018624283e-8)
"""Parts of π/2 whose sum has twice the digits of float32."""
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1.0)
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
# llvmlite has no types for mypy.
_Builder: TypeAlias = Any
_Vector: TypeAlias = Any
_Address: TypeAlias = Any
_Signature: TypeAlias = Any


def _dense(
    rows: int, vectors: int, number: ir.Type = _FLOAT, apart: bool = False
) -> Callable[..., None]:
    """`y = b + Wᵀ x` for `rows` outputs of `vectors` vectors of particles.

    With `apart`, y = b + Σ (x − w)², the squared distance from each row of weights.
    """
    lanes, size = ir.VectorType(number, VECTOR), _bytes(number)

    @intrinsic
    def dense(
        typing_context: _Builder,
        x: _Address,
        weights: _Address,
        biases: _Address,
        y: _Address,
        depth: _Address,
    ) -> tuple[_Signature, Callable[..., _Vector]]:
        def codegen(
            context: _Builder, builder: _Builder, signature: _Signature, args: list[_Vector]
        ) -> _Vector:
            x, weights, biases, y, depth = args
            before = builder.block
            start = [
                _splat(builder, _load(builder, biases, row, number))
                for row in range(rows)
                for _ in range(vectors)
            ]
            loop = builder.append_basic_block("inputs")
            after = builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            index = _carried(builder, _INT64, ir.Constant(_INT64, 0), before)
            x_at = _carried(builder, _INT64, x, before)
            w_at = _carried(builder, _INT64, weights, before)
            sums = [_carried(builder, lanes, value, before) for value in start]
            inputs = [_load(builder, x_at, v * VECTOR, lanes) for v in range(vectors)]
            grown = []
            for row in range(rows):
                weight = _splat(builder, _load(builder, w_at, row, number))
                for v in range(vectors):
                    one, other = weight, inputs[v]
                    if apart:
                        one = other = builder.fsub(other, weight)
                    grown.append(_fma(builder, one, other, sums[row * vectors + v]))
            following = builder.add(index, ir.Constant(_INT64, 1))
            index.add_incoming(following, loop)
            x_at.add_incoming(builder.add(x_at, ir.Constant(_INT64, size * LANES)), loop)
            w_at.add_incoming(builder.add(w_at, ir.Constant(_INT64, size * rows)), loop)
            for value, larger in zip(sums, grown, strict=True):
                value.add_incoming(larger, loop)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
            builder.position_at_end(after)
            for i, value in enumerate(grown):
                row, v = divmod(i, vectors)
                _store(builder, value, y, row * LANES + v * VECTOR)
            return context.get_dummy_value()

        return types.void(x, weights, biases, y, depth), codegen

    return dense


def _waves(
    context: _Builder, builder: _Builder, signature: _Signature, args: list[_Vector]
) -> _Vector:
    # x = n π/2 + r, |r| ≤ π/4; n tells which of ±cos r and ±sin r they are.
    x = _limited(builder, _load(builder, args[0], 0, _FLOATS), 1e6)
    shifted = _fma(builder, x, _all(2.0 / math.pi), _all(_ROUNDING))
    n, r = builder.fsub(shifted, _all(_ROUNDING)), x
    for part in _HALF_PI:
        r = _fma(builder, n, _all(-part), r)
    square = builder.fmul(r, r)
    cosine = _poly(builder, square, _COSINE)
    sine = _fma(builder, builder.fmul(square, r), _poly(builder, square, _SINE), r)
    bits = builder.bitcast(shifted, _INTS)
    odd = builder.icmp_signed("!=", builder.and_(bits, _every(1)), _every(0))
    for i, (one, other) in enumerate(((cosine, sine), (sine, cosine))):
        # cos turns negative for n = 1 and 2, sin for 2 and 3 (modulo 4).
        turned = builder.add(bits, _every(1 - i))
        sign = builder.shl(builder.and_(turned, _every(2)), _every(30))
        value = builder.bitcast(builder.select(odd, other, one), _INTS)
        _store(builder, builder.bitcast(builder.xor(value, sign), _FLOATS), args[i], 0)
    return context.get_dummy_value()


@intrinsic
def waves(
    typing_context: _Builder, cosine: _Address, sine: _Address
) -> tuple[_Signature, Callable[..., _Vector]]:
    """Cosine of a vector in memory in its place, and its sine; x is limited to ±1e6."""
    return types.void(cosine, sine), _waves


def _elementwise(
    function: Callable[[_Builder, _Vector], _Vector], kind: ir.Type = _FLOATS
) -> Callable[[int], None]:
    """`function` on one vector in memory, in place."""

    @intrinsic
    def apply(
        typing_context: _Builder, address: _Address
    ) -> tuple[_Signature, Callable[..., _Vector]]:
        def codegen(
            context: _Builder, builder: _Builder, signature: _Signature, args: list[_Vector]
        ) -> _Vector:
            value = function(builder, _load(builder, args[0], 0, kind))
            _store(builder, value, args[0], 0)
            return context.get_dummy_value()

        return types.void(address), codegen

    return apply


def _relu(builder: _Builder, x: _Vector) -> _Vector:
    # Not the other way round: what is no number stays none.
    return builder.select(builder.fcmp_ordered("<", x, _all(0.0)), _all(0.0), x)


def _silu(builder: _Builder, x: _Vector) -> _Vector:
    return builder.fdiv(x, builder.fadd(_all(1.0), _exp(builder, builder.fneg(x))))


def _tanh(builder: _Builder, x: _Vector) -> _Vector:
    decay = _exp(builder, builder.fmul(x, _all(-2.0)))
    return builder.fsub(builder.fdiv(_all(2.0), builder.fadd(_all(1.0), decay)), _all(1.0))


def _softplus(builder: _Builder, x: _Vector) -> _Vector:
    """max(x, 0) + log(1 + z), z = exp(−|x|); log(1 + z) = 2 artanh(z / (2 + z))."""
    positive = _relu(builder, x)
    z = _exp(builder, builder.fsub(x, builder.fmul(_all(2.0), positive)))
    ratio = builder.fdiv(z, builder.fadd(_all(2.0), z))
    square = builder.fmul(ratio, ratio)
    return _fma(builder, builder.fmul(_all(2.0), ratio), _poly(builder, square, _SERIES), positive)


def _exp(builder: _Builder, x: _Vector) -> _Vector:
    """exp(x) = 2ⁿ exp(r), |r| ≤ ln(2) / 2, to a relative 2e-7; x is limited to ±87."""
    x = _limited(builder, x, 87.0)
    shifted = _fma(builder, x, _all(_LOG2_E), _all(_ROUNDING))
    n = builder.fsub(shifted, _all(_ROUNDING))
    r = _fma(builder, n, _all(-_LN_2_LOW), _fma(builder, n, _all(-_LN_2_HIGH), x))
    series = _poly(builder, r, _EXP)
    value = _fma(builder, builder.fmul(r, r), series, builder.fadd(r, _all(1.0)))
    exponent = builder.shl(builder.bitcast(shifted, _INTS), _every(23))
    return builder.bitcast(builder.add(builder.bitcast(value, _INTS), exponent), _FLOATS)


def _bell(builder: _Builder, x: _Vector) -> _Vector:
    """exp(−x / 2) of double x ≥ 0, to a relative 1e-15; like `_exp`, by Taylor's series."""

    def all_of(value: float) -> _Vector:
        return ir.Constant(_DOUBLES, [value] * VECTOR)

    x = builder.fmul(x, all_of(-0.5))
    x = builder.select(builder.fcmp_ordered("<", x, all_of(-700.0)), all_of(-700.0), x)
    shifted = _fma(builder, x, all_of(_LOG2_E), all_of(1.5 * 2.0**52))
    n, r = builder.fsub(shifted, all_of(1.5 * 2.0**52)), x
    for part in _LN_2:
        r = _fma(builder, n, all_of(-part), r)
    value = all_of(1.0 / math.factorial(_TERMS))
    for power in reversed(range(_TERMS)):
        value = _fma(builder, value, r, all_of(1.0 / math.factorial(power)))
    shift = ir.Constant(_LONGS, [52] * VECTOR)
    exponent = builder.shl(builder.bitcast(shifted, _LONGS), shift)
    return builder.bitcast(builder.add(builder.bitcast(value, _LONGS), exponent), _DOUBLES)


def _limited(builder: _Builder, x: _Vector, limit: float) -> _Vector:
    for bound, beyond in ((limit, ">"), (-limit, "<")):
        x = builder.select(builder.fcmp_ordered(beyond, x, _all(bound)), _all(bound), x)
    return x


def _poly(builder: _Builder, x: _Vector, coefficients: tuple[float, ...]) -> _Vector:
    """Horner's rule, highest power first."""
    value = _all(coefficients[0])
    for coefficient in coefficients[1:]:
        value = _fma(builder, value, x, _all(coefficient))
    return value


def _all(value: float) -> _Vector:
    return ir.Constant(_FLOATS, [float(np.float32(value))] * VECTOR)


def _every(value: int) -> _Vector:
    return ir.Constant(_INTS, [value] * VECTOR)


def _splat(builder: _Builder, scalar: _Vector) -> _Vector:
    """`scalar` in every place of a vector."""
    undefined = ir.Constant(ir.VectorType(scalar.type, VECTOR), ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, undefined, _every(0))


def _fma(builder: _Builder, a: _Vector, b: _Vector, c: _Vector) -> _Vector:
    """The value of a · b + c, rounded once."""
    signature = ir.FunctionType(a.type, [a.type] * 3)
    name = f"llvm.fma.v{VECTOR}f{8 * _bytes(a.type)}"
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, [a, b, c])


def _carried(builder: _Builder, kind: ir.Type, start: _Vector, before: _Vector) -> _Vector:
    """A variable of the loop whose block begins here."""
    value = builder.phi(kind)
    value.add_incoming(start, before)
    return value


def _bytes(kind: ir.Type) -> int:
    """Of a number of that type, or in a vector of it."""
    return 4 if getattr(kind, "element", kind) == _FLOAT else 8


def _pointer(builder: _Builder, address: _Vector, index: int, kind: ir.Type) -> _Vector:
    """To the number `index` places behind `address`."""
    return builder.inttoptr(
        builder.add(address, ir.Constant(_INT64, _bytes(kind) * index)), kind.as_pointer()
    )


def _load(builder: _Builder, address: _Vector, index: int, kind: ir.Type) -> _Vector:
    value = builder.load(_pointer(builder, address, index, kind))
    value.align = _bytes(kind)
    return value


def _store(builder: _Builder, value: _Vector, address: _Vector, index: int) -> None:
    pointer = _pointer(builder, address, index, value.type)
    builder.store(value, pointer).align = _bytes(value.type)


dense_block_2 = _dense(BLOCK, 2)
dense_block_1 = _dense(BLOCK, 1)
dense_pair_2 = _dense(PAIR, 2)
dense_pair_1 = _dense(PAIR, 1)
relu = _elementwise(_relu)
silu = _elementwise(_silu)
tanh = _elementwise(_tanh)
softplus = _elementwise(_softplus)
bell = _elementwise(_bell, _DOUBLES)
double_block = _dense(BLOCK, 1, _DOUBLE)
distance_block = _dense(BLOCK, 1, _DOUBLE, apart=True)
