#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX's collectives over all GPUs of one process, compiled by XLA, against NumPy.

Exit code 0: right; 1: wrong; 77: no JAX for GPUs, or one GPU."""
import os
import sys

SKIPPED = 77
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P
except ImportError:
    print("no JAX")
    sys.exit(SKIPPED)


def sharded(mesh, function):
    """`function` on every device's rows, which lie along the first axis."""
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    return jax.jit(shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x")))


def cases(count):
    """Name, the operation on one device's rows, and what NumPy says of all devices' rows."""
    ring = [(i, (i + 1) % count) for i in range(count)]
    yield "psum", lambda a: jax.lax.psum(a, "x"), lambda a: np.broadcast_to(a.sum(0, keepdims=True), a.shape)
    yield "pmax", lambda a: jax.lax.pmax(a, "x"), lambda a: np.broadcast_to(a.max(0, keepdims=True), a.shape)
    yield "pmin", lambda a: jax.lax.pmin(a, "x"), lambda a: np.broadcast_to(a.min(0, keepdims=True), a.shape)
    yield ("all_gather", lambda a: jax.lax.all_gather(a, "x", axis=1, tiled=True),
           lambda a: np.broadcast_to(a.reshape(1, -1), (count, a.size)))
    yield ("psum_scatter", lambda a: jax.lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True),
           lambda a: a.sum(0).reshape(count, -1))
    yield ("all_to_all", lambda a: jax.lax.all_to_all(a, "x", split_axis=1, concat_axis=1, tiled=True),
           lambda a: a.reshape(count, count, -1).transpose(1, 0, 2).reshape(count, -1))
    yield "ppermute", lambda a: jax.lax.ppermute(a, "x", ring), lambda a: np.roll(a, 1, 0)


def main():
    try:
        devices = jax.devices("gpu")
    except RuntimeError as error:
        print(f"no GPU for JAX: {error}")
        return SKIPPED
    count = len(devices)
    if count < 2:
        print("one GPU is too few")
        return SKIPPED
    mesh = Mesh(np.array(devices), ("x",))
    wrong = 0
    for dtype in (jnp.float32, jnp.bfloat16, jnp.int32):
        for columns in (count, 1000 * count, (1 << 18) * count, (1 << 21) * count):
            rows = (np.arange(count * columns).reshape(count, columns) * 7 % 5 + np.arange(count)[:, None]).astype(np.float32)
            given = jnp.asarray(rows, dtype=dtype)
            for name, operation, oracle in cases(count):
                run = sharded(mesh, operation)
                for _ in range(3):  # the later ones replay what XLA has captured
                    result = np.asarray(run(given).astype(jnp.float32))
                if not np.array_equal(result, oracle(rows)):
                    print(f"{name} of {columns} {jnp.dtype(dtype).name} a device is wrong", file=sys.stderr)
                    wrong += 1
    print(f"JAX {jax.__version__} on {count} GPUs: {'right' if wrong == 0 else f'{wrong} wrong'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
