#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives over TCP between two hosts, beside Open MPI's and Gloo's: what `./run bench --net` calls. Needs root.

The hosts are network namespaces of this machine, joined by a veth pair, with half of its processors each. Every library
is measured by the same loop and through the same barrier, in interleaved rounds. Then one way alone beside bare TCP and
iperf3, several streams under a cap of each flow, and two links of unequal speed. Exit code: 0 measured (whoever won),
1 something failed, 2 bad usage.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(_HERE, ".."), os.path.join(_HERE, "..", "..", "tests", "net", "launchers")]
import compare  # noqa: E402
from hosts import ADDRESSES, Hosts, Missing  # noqa: E402

COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather"]
FULL_SIZES = [8 * 8**k for k in range(8)] + [64 << 20, 256 << 20]
QUICK_SIZES = [8, 4 << 10, 128 << 10, 4 << 20, 64 << 20]
CAP_MBIT = 100
PORT = 29500
IPERF_TRIES = 5


class Machines(Hosts):
    """Hosts that share no processor, as real ones do not: each has half of this machine's."""

    def on(self, number, *command):
        processors = sorted(os.sched_getaffinity(0))
        half = max(len(processors) // 2, 1)
        own = processors[:half] if number == 1 else processors[-half:]
        return super().on(number, "taskset", "-c", ",".join(map(str, own)), *command)


def together(commands, timeout=compare.TIMEOUT_S):
    """Runs commands at once and returns the first one's standard output; raises Failure with the last words of one that
    failed."""
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands]
    try:
        said = [process.communicate(timeout=timeout) for process in running]
    except subprocess.TimeoutExpired as expired:
        raise compare.Failure(f"{' '.join(commands[0][-8:])}: no end after {timeout} s") from expired
    finally:
        for process in running:
            process.kill()
    for process, (out, error) in zip(running, said):
        if process.returncode != 0:
            words = (error.strip() or out.strip()).splitlines()[-5:]
            raise compare.Failure(f"{' '.join(process.args[-8:])}: exit code {process.returncode}\n  " + "\n  ".join(words))
    return said[0][0]


def as_ranks(hosts, per_host, command, **variables):
    """Command lines of all ranks, with the variables of a launcher that takes both hosts for one: so that every library is
    timed over one barrier in shared memory."""
    size = 2 * per_host
    return [hosts.on(1 + rank // per_host, "env", f"RANK={rank}", f"WORLD_SIZE={size}", f"LOCAL_WORLD_SIZE={size}",
                     f"MASTER_ADDR={ADDRESSES[0]}", f"MASTER_PORT={PORT}",
                     *(f"{name}={value}" for name, value in variables.items()), *command) for rank in range(size)]


class Starling(compare.Starling):
    """Ours, over a profile that names the network."""

    def __init__(self, build, hosts, per_host, profile, budget_ms, **variables):
        super().__init__(build, None, 0)
        self.hosts, self.per_host, self.variables = hosts, per_host, variables
        self.options += ["--profile", profile] + (["--budget-ms", str(budget_ms)] if budget_ms else [])

    def document(self, collective, ranks, low, high, factor):
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            together(as_ranks(self.hosts, self.per_host, self.command + [
                collective, "-b", str(low), "-e", str(high), "-f", str(factor), "-J", out.name] + self.options, **self.variables))
            with open(out.name, encoding="utf-8") as file:
                return json.load(file)


class Peer(compare.Peer):
    """Gloo or Open MPI, as `start` starts its program on both hosts."""

    def __init__(self, key, build, start, budget_ms):
        super().__init__(key, build, None)
        self.start, self.budget_ms = start, budget_ms

    def measure(self, collectives, ranks, sizes):
        command = [self.program, "--collectives", ",".join(collectives), "--sizes", ",".join(map(str, sizes)),
                   "--budget-ms", str(self.budget_ms)]
        lines = [json.loads(line) for line in self.start(command).splitlines() if line.startswith("{")]
        wanted = [(collective, size) for collective in collectives for size in sizes]
        if len(lines) != len(wanted):
            raise compare.Failure(f"{self.program} printed {len(lines)} points where {len(wanted)} were asked for")
        for (collective, size), line in zip(wanted, lines):
            yield collective, size, line["samples_us"][0], line["nwrong"]


def gloo(hosts, per_host):
    def start(command):
        with tempfile.TemporaryDirectory() as store:
            return together(as_ranks(hosts, per_host, command + ["--interface", "eth0"], STARLING_TOOL_PEER_STORE=store))
    return start


def open_mpi(hosts, per_host):
    """Its own daemon on each host; within a host shared memory, between them TCP. It is told to give way while it waits,
    since it does not see that its ranks share a processor."""
    def start(command):
        with tempfile.TemporaryDirectory() as folder:
            agent = os.path.join(folder, "agent")
            hosts.write_agent(agent)
            return together([hosts.on(1, "env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun.openmpi",
                                      "-H", ",".join(f"{address}:{per_host}" for address in ADDRESSES), "-n", str(2 * per_host),
                                      "--mca", "plm_rsh_agent", agent, "--mca", "btl", "self,vader,tcp", "--mca",
                                      "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none",
                                      *command, "--one-machine")])
    return start


def collectives(hosts, arguments):
    ours = Starling(arguments.build, hosts, 2, arguments.profile, arguments.budget_ms)
    peers = [Peer("openmpi", arguments.build, open_mpi(hosts, 2), arguments.budget_ms),
             Peer("gloo", arguments.build, gloo(hosts, 2), arguments.budget_ms)]
    for peer in peers:
        if peer.missing:
            print(f"{compare.NAMES[peer.key]} left out: {peer.missing}")
    comparison = compare.Comparison([ours] + [peer for peer in peers if not peer.missing])
    comparison.rounds(arguments.rounds, arguments.collectives, 4, QUICK_SIZES if arguments.quick else FULL_SIZES)
    points = list(comparison.points())
    names = [library.key for library in comparison.libraries if library is not ours]
    compare.print_points(points, names)
    return {"points": points, "geometric_means": compare.print_means(points, names), "wrong": comparison.wrong}


def iperf_once(hosts, streams, seconds):
    """One try: (bits per second or None, what iperf3 says is wrong). The server serves once and ends, well or not."""
    server = subprocess.Popen(hosts.on(2, "timeout", "-k", "1", "60", "iperf3", "-s", "-1", "-B", ADDRESSES[1], "--forceflush"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        heard = []
        for line in server.stdout:
            heard.append(line.strip())
            if "listening" in line:
                break
        else:
            return None, "the server ended: " + " ".join(heard)
        client = subprocess.run(hosts.on(1, "timeout", "60", "iperf3", "-c", ADDRESSES[1], "-P", str(streams), "-t", str(seconds),
                                         "-J"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    finally:
        server.terminate()  # which passes it on
        server.communicate()
    try:
        said = json.loads(client.stdout)
    except ValueError:
        return None, f"the client, exit code {client.returncode}: {client.stdout.strip()[-200:]}"
    received = said.get("end", {}).get("sum_received")
    return (received["bits_per_second"], "") if received else (None, said.get("error", "the client reports no sum"))


def iperf(hosts, streams, seconds=2):
    """GB/s that iperf3 moves from the first host to the second, over `streams` streams."""
    for _ in range(IPERF_TRIES):
        rate, wrong = iperf_once(hosts, streams, seconds)
        if rate is not None:
            return rate / 8e9
        print(f"  iperf3 with {streams} streams: {wrong}; once more", flush=True)
    raise compare.Failure(f"iperf3 failed {IPERF_TRIES} times: {wrong}")


def one_way(hosts, arguments, size, streams, place="in_place"):
    """GB/s of a broadcast from a rank of the first host to one of the second, over so many streams. In place it is a
    transfer and nothing else; out of place the root copies what it sends to its other buffer, too."""
    ours = Starling(arguments.build, hosts, 1, arguments.profile, 0, STARLING_LINK_CONNECTIONS=streams)
    ours.options = ["-n", "5", "-w", "1", "-a", "3", "--profile", arguments.profile]
    # A small size first, which warming up is done with.
    return size / ours.document("broadcast", 2, 8, size, size // 8)["results"][1][place]["time_us"] / 1e3


def rounds(count, **ways):
    """Medians and extremes of ways to measure a rate, in turn."""
    samples = {name: [] for name in ways}
    for _ in range(count):
        for name, way in ways.items():
            samples[name].append(way())
    return {name: {"median": compare.median(values), "min": min(values), "max": max(values)} for name, values in samples.items()}


def spread(values, scale=1.0, digits=2):
    middle, low, high = (f"{values[name] * scale:.{digits}f}" for name in ("median", "min", "max"))
    return f"{middle} [{low}..{high}]"


def point_to_point(hosts, arguments):
    result = {}
    print("\none way of 64 MiB, GB/s: Starling's broadcast, in place and out of place; iperf3 with as many streams")
    for streams in (1, 4):
        result[streams] = rounds(
            arguments.rounds,
            in_place=lambda: one_way(hosts, arguments, 64 << 20, streams),
            out_of_place=lambda: one_way(hosts, arguments, 64 << 20, streams, "out_of_place"),
            iperf3=lambda: iperf(hosts, streams))
        iperf3 = result[streams]["iperf3"]
        for place in ("in_place", "out_of_place"):
            ratio = result[streams][place]["median"] / iperf3["median"]
            print(f"  {streams} streams, {place.replace('_', ' ')}: {spread(result[streams][place])} against {spread(iperf3)}: "
                  f"{ratio:.2f}{'' if ratio >= 1 else ' LOSS'}")
    print("\ntransport-tcp beside bare TCP, two processes:")
    spaces = [f"/proc/{holder.pid}/ns/net" for holder in hosts.holders]
    print(compare.run([os.path.join(arguments.build, "bin", "bench_tcp"), "--left", spaces[0], "--right", spaces[1], "--address",
                       ADDRESSES[0], "--interfaces", "=eth0", "--rounds", str(max(arguments.rounds, 3))]))
    return result


def shape(hosts, number, *lines):
    """Traffic control on a host; the rules go with its network."""
    subprocess.run(hosts.on(number, "tc", "-batch", "-"), input="\n".join(lines) + "\n", text=True, check=True, timeout=60)


def cap_flows(hosts, mbit):
    """No flow of the first host is faster: by fq where the system has it, else by a class for every 512th sender's port."""
    if subprocess.run(hosts.on(1, "tc", "qdisc", "add", "dev", "eth0", "root", "fq", "maxrate", f"{mbit}mbit"),
                      stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return "fq maxrate"
    lines = ["qdisc add dev eth0 root handle 1: htb"]
    for number in range(256):
        lines.append(f"class add dev eth0 parent 1: classid 1:{number + 1:x} htb rate {mbit}mbit burst 64kb quantum 60000")
        lines.append(f"filter add dev eth0 parent 1: protocol ip u32 match ip sport {2 * number} 0x1fe match ip protocol 6 0xff "
                     f"flowid 1:{number + 1:x}")
    shape(hosts, 1, *lines)
    return "htb by port"


def capped(arguments):
    hosts = Machines()
    try:
        how = cap_flows(hosts, CAP_MBIT)
        print(f"\n{CAP_MBIT} Mbit/s for each flow ({how}), one way of 8 MiB a stream, Mbit/s")
        ways = {str(streams): (lambda streams=streams: one_way(hosts, arguments, streams << 23, streams))
                for streams in (1, 2, 4)}
        result = rounds(arguments.rounds, **ways)
        for streams, values in result.items():
            share = values["median"] / result["1"]["median"] / int(streams)
            print(f"  {streams} streams: {spread(values, 8000, 0)}: {share:.2f} of {streams} times one")
        return result
    finally:
        hosts.close()


def unequal(arguments):
    hosts = Machines()
    try:
        hosts.join("eth1", ("10.0.1.1", "10.0.1.2"))
        for number in (1, 2):
            shape(hosts, number, *(f"qdisc add dev {device} root tbf rate {mbit}mbit burst 512kb latency 50ms"
                                   for device, mbit in (("eth0", CAP_MBIT), ("eth1", 3 * CAP_MBIT))))
        print(f"\ntwo links of {CAP_MBIT} and {3 * CAP_MBIT} Mbit/s, one way of 32 MiB, Mbit/s")
        result = rounds(arguments.rounds, both=lambda: one_way(hosts, arguments, 32 << 20, 2))
        print(f"  both: {spread(result['both'], 8000, 0)}: {result['both']['median'] * 8000 / (4 * CAP_MBIT):.2f} of their sum")
        return result
    finally:
        hosts.close()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (build)")
    parser.add_argument("--out", default=None, help="JSON file to write (BUILD/bench_net.json)")
    parser.add_argument("--quick", action="store_true", help="five sizes")
    parser.add_argument("--rounds", type=int, default=3, help="samples per point (3)")
    parser.add_argument("--budget-ms", type=float, default=100, help="time for one sample (100)")
    parser.add_argument("--profile", default="tcp", help="of Starling (tcp)")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES), help="separated by commas (all three)")
    parser.add_argument("--parts", default="collectives,point_to_point,capped,unequal", help="separated by commas (all four)")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    arguments.collectives = arguments.collectives.split(",")
    arguments.parts = arguments.parts.split(",")
    if arguments.rounds < 1 or set(arguments.collectives) - set(COLLECTIVES):
        parser.error(f"--rounds must be 1 or more, collectives are {', '.join(COLLECTIVES)}")
    return arguments


def main():
    arguments = parse_arguments()
    document = {"processor": compare.processor(), "cores": os.cpu_count(), "rounds": arguments.rounds}
    print(f"{document['processor']}, {document['cores']} cores, 2 network namespaces; {arguments.rounds} rounds", flush=True)
    hosts = Machines()
    try:
        for part in (collectives, point_to_point):
            if part.__name__ in arguments.parts:
                document[part.__name__] = part(hosts, arguments)
    finally:
        hosts.close()
    for part in (capped, unequal):
        if part.__name__ in arguments.parts:
            document[part.__name__] = part(arguments)
    path = arguments.out or os.path.join(arguments.build, "bench_net.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    print(f"every number: {path}")
    if document.get("collectives", {}).get("wrong"):
        raise compare.Failure(f"{document['collectives']['wrong']} wrong elements")


if __name__ == "__main__":
    try:
        main()
    except (compare.Failure, Missing) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        sys.exit(1)
