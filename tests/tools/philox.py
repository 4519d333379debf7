"""Philox4x32-10 in numpy: the numbers of src/core/random.c, so that a test and a script draw alike.

A stream is (seed, purpose, stream, step); element i is word i % 4 of the group i / 4, and a word is the number
(word >> 8) / 2^24, in [0, 1).

The numbers of the streams below are shared with tests/fixture.h.
"""
import numpy

DROPOUT, TEST = 2, 4  # purposes
INPUT, LABEL, PROJECTION, BUFFER = 1000, 2000, 3000, 4000  # streams of TEST; parameter i has stream i

LOW = numpy.uint64(0xFFFFFFFF)
HALF = numpy.uint64(32)


def words(seed, purpose, stream, count, step=0):
    """The first `count` words of a stream."""
    group = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    c0, c1 = group & LOW, group >> HALF
    c2 = numpy.full_like(group, step)
    c3 = numpy.full_like(group, purpose << 24 | stream)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0 = numpy.uint64(0xD2511F53) * c0
        p1 = numpy.uint64(0xCD9E8D57) * c2
        c0, c1 = (p1 >> HALF) ^ c1 ^ numpy.uint64(k0), p1 & LOW
        c2, c3 = (p0 >> HALF) ^ c3 ^ numpy.uint64(k1), p0 & LOW
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack([c0, c1, c2, c3], axis=1).reshape(-1)[:count]


def unit(seed, purpose, stream, count, step=0):
    """Uniform in [0, 1), as double."""
    return (words(seed, purpose, stream, count, step) >> numpy.uint64(8)).astype(numpy.float64) * 2.0**-24


def uniform(seed, stream, shape, low, high):
    """Uniform in [low, high), rounded to float32 and returned as double: what both sides start from."""
    u = unit(seed, TEST, stream, int(numpy.prod(shape)))
    return (low + (high - low) * u).astype(numpy.float32).astype(numpy.float64).reshape(shape)


def levels(seed, stream, shape, count):
    """Whole numbers 0 .. count - 1 divided by count - 1, rounded to float32 and returned as double."""
    u = unit(seed, TEST, stream, int(numpy.prod(shape)))
    return (numpy.floor(u * count) / (count - 1)).astype(numpy.float32).astype(numpy.float64).reshape(shape)
