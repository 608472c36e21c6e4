# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one's own: a controller on the first of two hosts and a node on each, in a private folder, while it is needed."""
import os
import shutil
import subprocess
import time

from hosts import KEPT, Missing

# No authentication: nobody else is on this network. Four tasks fit a node, however few processors the machine has. Jobs of
# other tests that run meanwhile have other numbers: hosts have the machine's /dev/shm in common.
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost=host-1(10.0.0.1)
FirstJobId={first}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
NodeName=10.0.0.[1-2] NodeHostname=host-[1-2] NodeAddr=10.0.0.[1-2] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 State=UP
"""


class Slurm:
    def __init__(self, hosts, folder):
        for program in ("slurmctld", "slurmd", "srun", "sinfo"):
            if shutil.which(program) is None:
                raise Missing(f"{program} is not installed (slurmctld, slurmd, slurm-client)")
        self.configuration = os.path.join(folder, "slurm.conf")
        for name in ("state", "spool-10.0.0.1", "spool-10.0.0.2"):
            os.mkdir(os.path.join(folder, name))
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(_CONFIGURATION.format(folder=folder, first=1 + os.getpid() % 60000))
        self.daemons = []
        self.log = open(os.path.join(folder, "daemons.log"), "w+", encoding="utf-8")
        self._start(hosts, 1, "slurmctld", "-D", "-f", self.configuration)
        for number in (1, 2):
            self._start(hosts, number, "slurmd", "-D", "-N", f"10.0.0.{number}", "-f", self.configuration)
        self._await(hosts)

    def close(self):
        for daemon in self.daemons:
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait(timeout=20)
        self.log.close()

    def _start(self, hosts, number, *command):
        self.daemons.append(subprocess.Popen(KEPT + hosts.on(number, *command), stdout=self.log, stderr=self.log))

    def _await(self, hosts):
        deadline = time.monotonic() + 30
        asked = None
        while time.monotonic() < deadline and all(daemon.poll() is None for daemon in self.daemons):
            asked = subprocess.run(hosts.on(1, "sinfo", "-h", "-t", "idle", "-o", "%D"), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, timeout=20, check=False,
                                   env={**os.environ, "SLURM_CONF": self.configuration})
            if asked.stdout.strip() == "2":
                return
            time.sleep(0.05)
        self.log.seek(0)
        raise AssertionError(f"Slurm did not come up: {asked and asked.stdout}\n{self.log.read()}")
