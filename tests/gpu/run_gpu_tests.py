#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs everything that needs GPUs, from a built tree, and sums it up.

    run_gpu_tests.py [--build DIR] [--out DIR] [--nccl-tests DIR] [--only TEXT] [--whole] [--ranks N] [--families [N]]
                     [--sanitize]

  --build DIR        the built tree (build)
  --out DIR          logs, report.json and report.xml (JUnit) go there (build/gpu-test)
  --nccl-tests DIR   also run the nccl-tests binaries in DIR
  --only TEXT        only what has TEXT in its name
  --whole            10,000 random calls from each of ten seeds, and 1,000 communicators
  --ranks N          this alone: random calls on N processes and, with --nccl-tests, its programs on as many. More ranks than
                     GPUs share them, under an MPS daemon that this starts and ends
  --families [N]     this alone, on as many ranks as --ranks says: N random calls (10,000), and N / 200 aborts in their
                     middle, with every family of kernels pinned in turn by a rule, each once as it is and once with
                     hostile timing and epochs that wrap
  --sanitize         this alone: compute-sanitizer's memcheck, racecheck and synccheck over some calls of every kernel, on
                     two ranks

Without a GPU everything is skipped and counted, exit code 0. Exit code 1 when anything fails, 2 when the tree is not
built. Needs no network.
"""
import argparse
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))


def count_gpus():
    """GPUs that the driver shows to this process; asked in a child, since CUDA does not survive a fork."""
    script = ("import ctypes, sys\n"
              "cuda = ctypes.CDLL('libcuda.so.1')\n"
              "count = ctypes.c_int()\n"
              "print(0 if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) else count.value)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


class Job:
    """One program: a name, a command, a judge of its output (None: the exit code alone decides), and what to say of it
    when it has passed."""

    def __init__(self, name, command, seconds, judge=None, environment=None, note=None):
        self.name, self.command, self.seconds, self.judge = name, command, seconds, judge
        self.environment, self.note = environment or {}, note
        self.outcome, self.text, self.took = "", "", 0.0

    def run(self, environment, out):
        begin = time.monotonic()
        try:
            done = subprocess.run(self.command, capture_output=True, text=True, errors="replace", timeout=self.seconds,
                                  check=False, env={**environment, **self.environment})
            code, log = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as expired:
            code, log = None, "".join(part.decode(errors="replace") if isinstance(part, bytes) else part or ""
                                      for part in (expired.stdout, expired.stderr))
        except OSError as error:
            code, log = 127, str(error)
        self.took = time.monotonic() - begin
        with open(os.path.join(out, re.sub(r"[^\w.-]+", "-", self.name) + ".log"), "w", encoding="utf-8") as file:
            file.write(" ".join(self.command) + "\n" + log)
        lines = [line for line in log.splitlines() if line.strip()]
        last = lines[-1].strip() if lines else ""
        if code is None:
            self.outcome, self.text = "failed", f"not done after {self.seconds} s; last line: {last}"
        elif code == SKIPPED:
            self.outcome, self.text = "skipped", last
        elif code != 0:
            self.outcome, self.text = "failed", f"exit code {code}: {found_by_sanitizer(log) or last}"
        elif (skips := re.findall(r"^.*: Skipped\n(.*)$", log, re.M)) and "[       OK ]" not in log:
            self.outcome, self.text = "skipped", skips[0]
        else:
            problem = self.judge(log) if self.judge else ""
            self.outcome = "failed" if problem else "passed"
            self.text = problem or (self.note(log) if self.note else "")


def found_by_sanitizer(log):
    """The first that compute-sanitizer speaks of, and where: programs themselves learn but that a launch has failed."""
    first = re.search(r"^=+ ((?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY)\S.*)\n(?:=+ +(at .*))?", log, re.M)
    return ", ".join(filter(None, first.groups())) if first else ""


def judge_nccl_tests(log):
    """nccl-tests' own verdict."""
    found = re.search(r"Out of bounds values : (\d+) (\w+)", log)
    return "" if found and found.group(2) == "OK" else f"wrong values: {found.group(1) if found else 'no verdict'}"


def missing_programs(build):
    """What of the built tree no test can do without."""
    needed = [os.path.join("bin", "starling"), os.path.join("tests", "gpu.calls_test")]
    return [name for name in needed if not os.path.exists(os.path.join(build, name))]


class Losses:
    """The training must not depend on the library: the second run is compared with the first."""

    def __init__(self):
        self.first = None

    def judge(self, log):
        found = re.search(r"^losses (.*)$", log, re.M)
        if not found:
            return "no losses printed"
        losses = [float(word) for word in found.group(1).split()]
        if self.first is None:
            self.first = losses
            return ""
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, self.first))
        return "" if worst < 2e-4 else f"losses differ from the other library's by up to {worst:.1e}"


def gtest_jobs(program, seconds, how="", environment=None, whole=False):
    """A job for every test of a program."""
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=False).stdout
    suite = ""
    for line in listed.splitlines():
        if line.startswith(" "):
            test = suite + line.split()[0]
            name, command = f"{os.path.basename(program)}{how} {test}", [program, f"--gtest_filter={test}"]
            if whole and "RandomCalls" in test:
                for seed in range(1, 11):
                    yield Job(f"{name} seed {seed}", [*command, "--calls", "10000", "--seed", str(seed)], 1500,
                              environment=environment)
            elif whole and "ManyCommunicators" in test:
                yield Job(name, [*command, "--comms", "1000"], 1500, environment=environment)
            else:
                yield Job(name, command, seconds, environment=environment)
        elif line.endswith("."):
            suite = line.strip()


def nccl_tests_jobs(folder, gpus, library):
    """All programs of nccl-tests in the folder: threads, one thread for all GPUs, graphs, registered buffers, windows and,
    where mpirun is and the program was built for it, a process a GPU; every type and operation once."""
    environment = {"LD_LIBRARY_PATH": library}
    threads = ["-t", str(gpus), "-g", "1"]
    mpirun = shutil.which("mpirun")
    for program in sorted(glob.glob(os.path.join(folder, "*_perf"))):
        name = os.path.basename(program).removesuffix("_perf")
        sizes = ["-b", "8", "-e", "32M", "-f", "16", "-n", "5", "-w", "2", "-c", "1"]
        for how, options in (("threads", threads), ("one thread", ["-t", "1", "-g", str(gpus)]), ("graph", [*threads, "-G", "3"]),
                             ("registered", [*threads, "-R", "1"]), ("windows", [*threads, "-R", "2"])):
            job = Job(f"nccl-tests {name} {how}", [program, *sizes, *options], 120, judge_nccl_tests, environment)
            if name == "hypercube" and how == "one thread" and gpus > 2:
                job.outcome, job.text = "skipped", "one thread puts all steps, which need each other, in one group, which orders nothing"
            yield job
        yield Job(f"nccl-tests {name} all types and operations",
                  [program, "-b", "1K", "-e", "1M", "-f", "32", "-n", "2", "-w", "1", "-c", "1", *threads, "-d", "all", "-o", "all"],
                  300, judge_nccl_tests, environment)
        if mpirun and needs_mpi(program):
            for registration in ("0", "1", "2"):
                yield Job(f"nccl-tests {name} mpirun -R {registration}",
                          [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", str(gpus), "-x", "LD_LIBRARY_PATH",
                           "-x", "STARLING_MODULE_PATH", program, *sizes, "-t", "1", "-g", "1", "-R", registration],
                          180, judge_nccl_tests, environment)


def sharers(ranks, gpus):
    """Ranks on a GPU, at most."""
    return -(-ranks // max(gpus, 1))


def part_of_gpu(ranks, gpus):
    """Kernels of all ranks of a GPU must run at the same time, two of each, eager and in a graph: parts of 96 SMs."""
    return {"NCCL_MAX_CTAS": str(max(48 // sharers(ranks, gpus), 1))} if sharers(ranks, gpus) > 1 else {}


def process_jobs(arguments, build, gpus):
    """Processes as ranks, which may be more than the GPUs."""
    ranks = arguments.ranks
    shared = sharers(ranks, gpus)
    few = part_of_gpu(ranks, gpus)
    calls = os.path.join(build, "tests", "gpu.calls_test")
    environment = {"SL_GPU_RANKS": str(ranks), "SL_GPU_ARENA": str((1 << 30) // shared), **few}
    for test in ("Gpu.EndsRandomCallsRightOnProcesses", "GpuCopies.AreRightEagerAndInGraphsOnProcesses"):
        yield Job(f"{ranks} processes: {test}", [calls, f"--gtest_filter={test}"], 600, environment=environment)
    mpirun = shutil.which("mpirun")
    if not arguments.nccl_tests or mpirun is None:
        return
    script = f'NCCL_TESTS_DEVICE=$((OMPI_COMM_WORLD_LOCAL_RANK % {max(gpus, 1)})) exec "$@"'
    processes = [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), "bash", "-c",
                 script, "rank"]
    sizes = ["-b", "8", "-e", "4M", "-f", "16", "-n", "5", "-w", "2", "-c", "1", "-t", "1", "-g", "1"]
    library = {"LD_LIBRARY_PATH": os.path.join(build, "lib") + ":" + os.environ.get("LD_LIBRARY_PATH", ""), **few}
    for program in filter(needs_mpi, sorted(glob.glob(os.path.join(arguments.nccl_tests, "*_perf")))):
        name = f"{ranks} processes: nccl-tests {os.path.basename(program).removesuffix('_perf')}"
        for how, options in (("", []), (" graph", ["-G", "3"]), (" windows", ["-R", "2"])):
            yield Job(name + how, [*processes, program, *sizes, *options], 180, judge_nccl_tests, library)


@contextlib.contextmanager
def sharing(ranks, gpus, environment, out):
    """Whether there is a way for ranks to share GPUs, while it is open: kernels of several processes run on a GPU at the same
    time under NVIDIA's MPS only. One of our own, since the machine's is not ours to end."""
    control = shutil.which("nvidia-cuda-mps-control")
    if ranks <= gpus or gpus == 0 or control is None:
        yield ranks <= gpus
        return
    # A short path: the daemon's sockets lie there.
    with tempfile.TemporaryDirectory(prefix="mps") as pipes:
        log = os.path.join(os.path.abspath(out), "mps")
        os.makedirs(log, exist_ok=True)
        environment.update({"CUDA_MPS_PIPE_DIRECTORY": pipes, "CUDA_MPS_LOG_DIRECTORY": log, "CUDA_DEVICE_MAX_CONNECTIONS": "8"})
        subprocess.run([control, "-d"], check=True, env=environment, stdout=subprocess.DEVNULL)
        try:
            yield True
        finally:
            subprocess.run([control], input="quit\n", text=True, check=False, env=environment, stdout=subprocess.DEVNULL)


def needs_mpi(program):
    """Whether it was built with MPI=1; without, every process of mpirun would test by itself."""
    with open(program, "rb") as file:
        return b"MPI_Init" in file.read()


def families_of(starling, environment):
    """The families of kernels: what algo-symmetric provides for collectives on GPUs."""
    done = subprocess.run([starling, "modules", "--json"], capture_output=True, text=True, check=True, env=environment)
    modules = {module["name"]: module for module in json.loads(done.stdout)["modules"]}
    names = [provide["name"] for provide in modules["algo-symmetric"]["provides"]]
    return [name for name in names if name.startswith("symmetric_") and name != "symmetric_p2p"]


def family_profile(family, families, out):
    """A profile in which this family serves all collectives that it can, and rounds the rest."""
    path = os.path.join(os.path.abspath(out), f"{family}.toml")
    others = ", ".join(f'"{name}"' for name in families if name not in (family, "symmetric_staged"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'profile_version = 1\n[[select]]\nalgorithm = "{family}"\nforbid = [{others}]\n')
    return path


def served_by_family(log):
    """What the algorithms of all ranks say when they go: operations of each, and those with a buffer out of reach."""
    served = {}
    for name, operations, away in re.findall(r"(symmetric_\w+) served (\d+) operations, (\d+) with a buffer out of reach", log):
        one = served.setdefault(name, [0, 0])
        one[0] += int(operations)
        one[1] += int(away)
    return served


def judge_family(family):
    def judge(log):
        served = served_by_family(log)
        return "" if not served or family in served else f"none ran so, but {', '.join(sorted(served))}"
    return judge


def note_family(family):
    def note(log):
        served = served_by_family(log)
        total = sum(one[0] for one in served.values())
        operations, away = served.get(family, (0, 0))
        return f"{operations} of {total} operations ran so, {away} with a buffer out of reach" if total else ""
    return note


def family_jobs(arguments, build, environment, gpus, out):
    calls = os.path.join(build, "tests", "gpu.calls_test")
    hostile = {"STARLING_ALGO_SYMMETRIC_GPU_DAWDLE_NS": "20000", "STARLING_ALGO_SYMMETRIC_GPU_FIRST_EPOCH": str(2**32 - 300)}
    tests = ("Gpu.EndsRandomCallsRightOnProcesses", "Gpu.EndsRandomCallsRightOnThreads", "GpuLaunches.AbortsInAnyPhase")
    ranks = {"SL_GPU_RANKS": str(arguments.ranks)} if arguments.ranks else {}
    if arguments.ranks > gpus:  # threads that share a GPU share its hardware queues, too, and wait for each other there
        tests = tests[:1]
        ranks.update(part_of_gpu(arguments.ranks, gpus))
    numbers = ["--calls", str(arguments.families), "--aborts", str(max(arguments.families // 200, 5))]
    families = families_of(os.path.join(build, "bin", "starling"), environment)
    for seed, family in enumerate(families, 1):
        messages = {} if "_shot" in family else {"STARLING_ALGO_SYMMETRIC_GPU_MAIL_BYTES": "0"}
        for how, more in (("", {}), (", hostile timing", hostile)):
            forced = {"STARLING_PROFILE": family_profile(family, families, out), "STARLING_LOG": "debug", **messages, **ranks,
                      **more}
            for test in tests:
                yield Job(f"{family}{how}: {test}", [calls, f"--gtest_filter={test}", *numbers, "--seed", str(seed)], 1500,
                          judge_family(family), forced, note_family(family))


def judge_sanitizer(log):
    """All tools' verdicts; racecheck words its own."""
    found = re.search(r"ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards? displayed", log)
    if not found:
        return "no verdict"
    return "" if int(found.group(1) or found.group(2) or 0) == 0 else found.group(0)


def note_cases(log):
    counts = re.findall(r"(\d+) cases", log)
    return f"{sum(int(count) for count in counts)} cases"


def sanitizer_jobs(build):
    """Few cases: what is looked for shows at the first that has it, and every access costs."""
    places = [shutil.which("compute-sanitizer"), *glob.glob("/usr/local/cuda*/bin/compute-sanitizer")]
    sanitizer = next((place for place in places if place), None)
    kernels = os.path.join(build, "tests", "gpu.symmetric_kernels")
    for tool in ("memcheck", "racecheck", "synccheck"):
        command = [sanitizer or "compute-sanitizer", "--tool", tool, "--error-exitcode", "99", kernels, "2", "--cases", "40",
                   "--abort-seconds", "30"]
        job = Job(f"compute-sanitizer {tool}", command, 500, judge_sanitizer, note=note_cases)
        if sanitizer is None:
            job.outcome, job.text = "skipped", "compute-sanitizer is not installed"
        yield job


def jobs_of(arguments, gpus):
    build = os.path.abspath(arguments.build)
    starling = os.path.join(build, "bin", "starling")
    library = os.path.join(build, "lib")
    # Few at once: every test starts CUDA in a process of its own, and starting is what takes the time.
    yield Job("conform device-cuda", [starling, "conform", "--jobs", "4", "--exclusions", os.path.join(HERE, "conformance.toml"),
                                      os.path.join(library, "starling", "device-cuda.so")], 300)
    program = os.path.join(build, "tests", "device_cuda.gpu_test")
    if os.path.exists(program):
        yield Job("device_cuda.gpu_test", [program], 120)
    kernels = os.path.join(build, "tests", "gpu.symmetric_kernels")
    if os.path.exists(kernels):
        yield Job("symmetric kernels", [kernels], 500)
    order = os.path.join(build, "tests", "gpu.launch_order")
    if os.path.exists(order):
        for check in ("late-peer", "option", "foreign", "host-heap"):
            yield Job(f"launch order {check}", [order, "--check", check], 300)
    calls = os.path.join(build, "tests", "gpu.calls_test")
    yield from gtest_jobs(calls, 300, whole=arguments.whole)
    # As if no GPU reached another one's memory: on a heap in host memory, and by plans; small pieces, and TCP as between
    # hosts, make another profile each. Ranks that share a GPU in threads must not share its hardware queues: a wait
    # holds up all streams of a queue.
    apart = {"STARLING_COMM_DIRECT_RANKS": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
    yield from gtest_jobs(calls, 300, " on a host heap", {**apart, "SL_GPU_APART": "1"})
    relayed = {**apart, "SL_GPU_RELAYED": "1", "STARLING_COMM_HOST_HEAP": "false"}
    yield from gtest_jobs(calls, 300, " relayed", relayed)
    for how in ("shm", "tcp"):
        profile = {"STARLING_PROFILE": os.path.join(HERE, f"relayed_{how}.toml"), "SL_GPU_LARGEST": "18"}
        yield from gtest_jobs(calls, 300, f" relayed over {how}", {**relayed, **profile})
    client = os.path.join(HERE, "clients", "torch_collectives.py")
    losses = Losses()
    yield Job("torch over its own NCCL", [sys.executable, client], 300, losses.judge)
    yield Job("torch over starling", [starling, "run", "--", sys.executable, client], 300, losses.judge)
    yield Job("torch over starling, non-blocking", [starling, "run", "--", sys.executable, client], 300, losses.judge,
              {"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"})
    yield Job("torch over starling, expandable segments", [starling, "run", "--", sys.executable, client], 300, losses.judge,
              {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    yield Job("torch over starling, on a host heap", [starling, "run", "--", sys.executable, client], 300, losses.judge, apart)
    for name in ("cupy", "jax"):
        command = [starling, "run", "--", sys.executable, os.path.join(HERE, "clients", f"{name}_collectives.py")]
        yield Job(f"{name} over starling", command, 300)
        yield Job(f"{name} over starling, on a host heap", command, 300, environment=apart)
    if arguments.nccl_tests:
        yield from nccl_tests_jobs(arguments.nccl_tests, gpus, library)


def write_reports(jobs, out, gpus):
    rows = [{"name": job.name, "outcome": job.outcome, "text": job.text, "seconds": round(job.took, 2)} for job in jobs]
    with open(os.path.join(out, "report.json"), "w", encoding="utf-8") as file:
        json.dump({"gpus": gpus, "tests": rows}, file, indent=1)
    suite = xml.Element("testsuite", name="gpu-test", tests=str(len(rows)),
                        failures=str(sum(row["outcome"] == "failed" for row in rows)),
                        skipped=str(sum(row["outcome"] == "skipped" for row in rows)))
    for row in rows:
        case = xml.SubElement(suite, "testcase", name=row["name"], time=str(row["seconds"]))
        if row["outcome"] == "failed":
            xml.SubElement(case, "failure", message=row["text"])
        elif row["outcome"] == "skipped":
            xml.SubElement(case, "skipped", message=row["text"])
    xml.ElementTree(suite).write(os.path.join(out, "report.xml"), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="")
    parser.add_argument("--nccl-tests", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--ranks", type=int, choices=range(1, 65), metavar="N", default=0)
    parser.add_argument("--families", type=int, nargs="?", const=10000, default=0)
    parser.add_argument("--sanitize", action="store_true")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    environment = {**os.environ, "STARLING_MODULE_PATH": os.path.join(build, "lib", "starling"), "SL_TEST_BUILD_DIR": build,
                   "SL_TEST_SOURCE_DIR": os.path.dirname(os.path.dirname(HERE))}
    environment.setdefault("LD_LIBRARY_PATH", "")
    environment["LD_LIBRARY_PATH"] = os.path.join(build, "lib") + ":" + environment["LD_LIBRARY_PATH"]
    if missing := missing_programs(build):
        print(f"gpu-test: {build} has no {' and no '.join(missing)}; build it with ./run build, tests included, or name "
              "another tree with --build", file=sys.stderr)
        return 2
    out = arguments.out or os.path.join(arguments.build, "gpu-test")
    os.makedirs(out, exist_ok=True)
    gpus = count_gpus()
    if arguments.families or arguments.sanitize:
        jobs = [*(family_jobs(arguments, build, environment, gpus, out) if arguments.families else []),
                *(sanitizer_jobs(build) if arguments.sanitize else [])]
    elif arguments.ranks:
        jobs = list(process_jobs(arguments, build, gpus))
    else:
        jobs = list(jobs_of(arguments, gpus))
    jobs = [job for job in jobs if arguments.only in job.name]
    with sharing(arguments.ranks, gpus, environment, out) as can_share:
        for job in jobs:
            if gpus == 0:
                job.outcome, job.text = "skipped", "no GPU on this machine"
            elif not can_share:
                job.outcome, job.text = "skipped", "more ranks than GPUs need nvidia-cuda-mps-control, which is not installed"
            elif not job.outcome:
                job.run(environment, out)
            print(f"{job.outcome:8} {job.took:7.1f} s  {job.name}{': ' + job.text if job.text else ''}", flush=True)
    write_reports(jobs, out, gpus)
    count = {word: sum(job.outcome == word for job in jobs) for word in ("passed", "failed", "skipped")}
    print(f"gpu-test on {gpus} GPUs: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped; "
          f"logs, report.json and report.xml in {out}")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
