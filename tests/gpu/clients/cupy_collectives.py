#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy's NCCL communicator, all GPUs from one thread, in groups. Exit code 0: right; 1: wrong; 77: no CuPy or one GPU."""
import sys

SKIPPED = 77
try:
    import cupy
    from cupy.cuda import nccl
except ImportError:
    print("no CuPy")
    sys.exit(SKIPPED)


def main():
    devices = list(range(cupy.cuda.runtime.getDeviceCount()))
    if len(devices) < 2:
        print("one GPU is too few")
        return SKIPPED
    print("NCCL", nccl.get_version())
    comms = nccl.NcclCommunicator.initAll(devices)
    for count in (1, 1000, 1 << 20):
        streams, sends, recvs = [], [], []
        for device in devices:
            with cupy.cuda.Device(device):
                streams.append(cupy.cuda.Stream(non_blocking=True))
                with streams[-1]:
                    sends.append(cupy.arange(count, dtype=cupy.float32) % 7 + device)
                    recvs.append(cupy.zeros(count, dtype=cupy.float32))
                streams[-1].synchronize()
        nccl.groupStart()
        for comm, stream, send, recv, device in zip(comms, streams, sends, recvs, devices):
            with cupy.cuda.Device(device):
                comm.allReduce(send.data.ptr, recv.data.ptr, count, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
        nccl.groupEnd()
        for device, stream, recv in zip(devices, streams, recvs):
            with cupy.cuda.Device(device):
                stream.synchronize()
                wanted = (cupy.arange(count, dtype=cupy.float32) % 7) * len(devices) + sum(devices)
                if not bool((recv == wanted).all()):
                    print(f"device {device}: all-reduce of {count} is wrong", file=sys.stderr)
                    return 1
    for comm in comms:
        comm.destroy()
    print("right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
