#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""starling bench and examples/digits under launchers people use, each started for real, and the recipes of
docs/operator.md word for word.

launchers_test.py CLASS. Exit code: 0 good, 1 failure, 77 skipped, with the reason.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from hosts import ADDRESSES, Hosts, Missing
from slurm import Slurm

SOURCE = os.environ["SL_TEST_SOURCE_DIR"]
STARLING = os.path.join(os.environ["SL_TEST_BUILD_DIR"], "bin", "starling")
DIGITS = os.path.join(os.environ["SL_TEST_BUILD_DIR"], "bin", "digits")
# Launchers pass less than all on to other hosts, and ranks must agree: so none is told anything of Starling's.
_FOREIGN = ("STARLING_", "OMPI_", "PMI", "MPI_", "HYDRA_", "SLURM_", "MASTER_")
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(_FOREIGN) and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
ENVIRONMENT.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
# Tests that run meanwhile have another one: hosts have the machine's /dev/shm in common.
PORT = 20000 + os.getpid() % 1000 * 8
BENCH = [STARLING, "bench", "all_reduce", "-b", "4", "-e", "256K", "-f", "256", "-n", "3", "-w", "1"]


class LauncherTest(unittest.TestCase):
    """What every launcher is asked. A class of it says how four ranks are started."""

    hosts = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="starling-launchers-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        try:
            cls.hosts = Hosts()
            cls.addClassCleanup(cls.hosts.close)
            cls.prepare()
        except Missing as missing:
            raise unittest.SkipTest(str(missing)) from missing

    @classmethod
    def prepare(cls):
        """Raises Missing when the launcher is not here."""

    @staticmethod
    def need(program, package):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed ({package})")

    @classmethod
    def write_script(cls, name, text):
        path = os.path.join(cls.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        return path

    def run_on(self, host, command, code=0, **environment):
        """Both streams of a command on a host, which must end with `code` (None: not 0) within 90 s."""
        result = subprocess.run(self.hosts.on(host, *command), env={**ENVIRONMENT, **self.variables(), **environment},
                                cwd=self.folder, timeout=90, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, check=False)
        good = result.returncode != 0 if code is None else result.returncode == code
        self.assertTrue(good, f"{' '.join(command)}: exit code {result.returncode}\n{result.stdout}")
        return result.stdout

    def variables(self):
        return {}

    def check_bench(self, said, hosts):
        self.assertIn("Out of bounds values : 0 OK", said)
        found = re.findall(r"^#  Rank +(\d+) .* on +(\S+) device", said, re.M)
        self.assertEqual([int(rank) for rank, _ in found], [0, 1, 2, 3], said)
        self.assertEqual(len({host for _, host in found}), hosts, said)

    def check_digits(self, said):
        self.assertIn("ranks 4, global batch 64", said)
        self.assertRegex(said, r"\naccuracy: [89]\d\.\d %")


class Job:
    """The cases. `one_host` and `two_hosts` make the command line of a job of four ranks out of a rank's."""

    def test_bench_is_right_on_one_host(self):
        self.check_bench(self.run_on(1, self.one_host(BENCH)), hosts=1)

    def test_bench_is_right_over_two_hosts(self):
        self.check_bench(self.run_on(1, self.two_hosts(BENCH + ["--profile", "tcp"])), hosts=2)

    def test_digits_learns_on_one_host(self):
        self.check_digits(self.run_on(1, self.one_host([DIGITS, "--epochs", "2"])))

    def test_digits_learns_over_two_hosts(self):
        learn = ["env", "STARLING_PROFILE=tcp", DIGITS, "--epochs", "2"]
        self.check_digits(self.run_on(1, self.two_hosts(learn)))

    def test_a_script_between_launcher_and_rank_does_no_harm(self):
        script = self.write_script("rank.sh", f"{' '.join(BENCH)}\nexit $?")
        self.check_bench(self.run_on(1, self.one_host([script])), hosts=1)

    def test_a_rank_that_does_not_come_ends_the_others(self):
        """It ends well, so that not the launcher ends the job."""
        absent = ["sh", "-c", f'test "${self.rank}" = 2 || exec {" ".join(BENCH)} -T 2']
        self.assertIn("not all workers came to the barrier within 2 s", self.run_on(1, self.one_host(absent), code=None))
        # Nothing is left behind; of torchrun the name is known.
        self.assertEqual([name for name in os.listdir("/dev/shm") if f"-torch-{PORT}-" in name], [])

    def test_a_rank_that_another_host_lacks_is_named(self):
        absent = ["sh", "-c", f'test "${self.rank}" = 2 || exec {" ".join(BENCH)} -T 2 --profile tcp']
        self.assertRegex(self.run_on(1, self.two_hosts(absent), code=None), self.absent)

    def test_variables_that_are_left_over_are_named(self):
        left_over = ["env", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK="] + BENCH
        self.assertIn("environment: RANK 0 of WORLD_SIZE 1 contradicts", self.run_on(1, self.one_host(left_over), code=None))

    absent = "of 4 ranks, rank 2 did not come for the id in time"


class Mpirun(Job, LauncherTest):
    rank = "OMPI_COMM_WORLD_RANK"

    @classmethod
    def prepare(cls):
        cls.need("mpirun.openmpi", "openmpi-bin")
        cls.hosts.write_agent(os.path.join(cls.folder, "agent"))

    def variables(self):
        return {"OMPI_MCA_plm_rsh_agent": os.path.join(self.folder, "agent")}

    def one_host(self, command):
        return ["mpirun.openmpi", "--oversubscribe", "-n", "4", *command]

    def two_hosts(self, command):
        return ["mpirun.openmpi", "-H", ",".join(address + ":2" for address in ADDRESSES), "-n", "4", "-x",
                f"MASTER_ADDR={ADDRESSES[0]}", "-x", "MASTER_PORT=29500", *command]


class Mpiexec(Job, LauncherTest):
    rank = "PMI_RANK"
    absent = "PMI: mpiexec has not answered \"cmd=barrier_in\" in time: not all ranks have come this far"

    @classmethod
    def prepare(cls):
        cls.need("mpiexec.hydra", "mpich")
        cls.hosts.write_agent(os.path.join(cls.folder, "agent"))

    def variables(self):
        return {"HYDRA_LAUNCHER_EXEC": os.path.join(self.folder, "agent")}

    def one_host(self, command):
        return ["mpiexec.hydra", "-n", "4", *command]

    def two_hosts(self, command):
        return ["mpiexec.hydra", "-hosts", ",".join(ADDRESSES), "-ppn", "2", "-n", "4", *command]


class Srun(Job, LauncherTest):
    rank = "SLURM_PROCID"

    @classmethod
    def prepare(cls):
        cls.slurm = Slurm(cls.hosts, cls.folder)
        cls.addClassCleanup(cls.slurm.close)

    def variables(self):
        return {"SLURM_CONF": self.slurm.configuration}

    def one_host(self, command):
        return ["srun", "-N", "1", "-n", "4", *command]

    def two_hosts(self, command):
        return ["srun", "-N", "2", "-n", "4", *command]

    def test_pmi_of_srun_changes_nothing(self):
        self.check_bench(self.run_on(1, ["srun", "--mpi=pmi2", "-N", "1", "-n", "4", *BENCH]), hosts=1)


class Torchrun(Job, LauncherTest):
    """Its environment alone: torch is no package of Debian's."""

    rank = "RANK"

    def one_host(self, command):
        return self._by_hand(command, [[0, 1, 2, 3]])

    def two_hosts(self, command):
        return self._by_hand(command, [[0, 1], [2, 3]])

    def _by_hand(self, command, ranks_of_hosts):
        lines = []
        for host, ranks in enumerate(ranks_of_hosts, 1):
            for local_rank, rank in enumerate(ranks):
                variables = (f"RANK={rank} WORLD_SIZE=4 LOCAL_RANK={local_rank} LOCAL_WORLD_SIZE={len(ranks)} "
                             f"MASTER_ADDR={ADDRESSES[0]} MASTER_PORT={PORT} TORCHELASTIC_RUN_ID=none")
                words = " ".join(f"'{word}'" for word in self.hosts.on(host, "env", *variables.split(), *command))
                lines.append(f"{words} & ranks=\"$ranks $!\"")
        return ["bash", "-c", "\n".join(lines) + "\ncode=0\nfor rank in $ranks; do wait $rank || code=$?; done\nexit $code"]

    def test_variables_that_are_left_over_are_named(self):
        half = self.one_host(["env", "-u", "RANK"] + BENCH)
        self.assertIn("environment: WORLD_SIZE is set and RANK is not; set both, or neither", self.run_on(1, half, code=2))

    def test_the_report_names_what_served_between_hosts(self):
        """Workers of several hosts agree by all-gathers of their own, which another algorithm serves here."""
        profile, report = (os.path.join(self.folder, name) for name in ("served.toml", "served.json"))
        with open(profile, "w", encoding="utf-8") as file:
            file.write('profile_version = 1\n[[select]]\nop = "all_reduce"\nalgorithm = "tree"\n'
                       '[[select]]\nop = "all_gather"\nalgorithm = "ring"\n')
        self.check_bench(self.run_on(1, self.two_hosts(BENCH + ["--profile", profile, "-J", report])), hosts=2)
        with open(report, encoding="utf-8") as file:
            served = [row["served_by"]["algorithm"] for row in json.load(file)["results"]]
        self.assertEqual(set(served), {"tree"})

    def test_the_port_may_be_taken(self):
        with open(os.path.join(self.folder, "store.py"), "w", encoding="utf-8") as file:
            file.write(f"import socket, sys, subprocess\nstore = socket.create_server(('10.0.0.1', {PORT}))\n"
                       "sys.exit(subprocess.call(sys.argv[1:]))\n")
        agent = self.two_hosts(["env", "TORCHELASTIC_USE_AGENT_STORE=True"] + BENCH + ["--profile", "tcp"])
        self.check_bench(self.run_on(1, ["python3", "store.py", *agent]), hosts=2)


class Recipes(LauncherTest):
    """The section "Under a launcher" of docs/operator.md: every block without a language, on the first of its two hosts."""

    @classmethod
    def prepare(cls):
        cls.need("mpirun.openmpi", "openmpi-bin")
        cls.need("mpiexec.hydra", "mpich")
        cls.hosts.write_agent(os.path.join(cls.folder, "agent"))
        cls.slurm = Slurm(cls.hosts, cls.folder)
        cls.addClassCleanup(cls.slurm.close)
        # Whatever mpirun and mpiexec are on this machine.
        for name, program in (("mpirun", "mpirun.openmpi"), ("mpiexec", "mpiexec.hydra")):
            cls.write_script(name, f'exec {program} "$@"')
        # The reader stands in a built tree.
        os.symlink(os.environ["SL_TEST_BUILD_DIR"], os.path.join(cls.folder, "build"))

    def variables(self):
        agent = os.path.join(self.folder, "agent")
        return {"OMPI_MCA_plm_rsh_agent": agent, "HYDRA_LAUNCHER_EXEC": agent, "SLURM_CONF": self.slurm.configuration,
                "PATH": self.folder + ":" + os.environ["PATH"]}

    def test_do_what_the_page_says(self):
        with open(os.path.join(SOURCE, "docs", "operator.md"), encoding="utf-8") as file:
            section = re.search(r"^## Under a launcher\n(.*?)^## ", file.read(), re.M | re.S)[1]
        blocks = [text for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", section, re.M | re.S) if not language]
        self.assertGreaterEqual(len(blocks), 4)
        for block in blocks:
            with self.subTest(block=block):
                said = self.run_on(1, ["bash", "-euo", "pipefail", "-c", block])
                for line in (line for line in block.splitlines() if "starling bench" in line or "digits" in line):
                    self.assertIn("Out of bounds values : 0 OK" if "starling bench" in line else "accuracy: ", said)


def main():
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromName(sys.argv[1], sys.modules[__name__]))
    if not result.wasSuccessful():
        return 1
    return 77 if result.skipped and result.testsRun == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
