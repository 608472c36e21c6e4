# SPDX-License-Identifier: Apache-2.0
"""Two hosts for launchers: namespaces of network and host name, joined by one veth pair. They end with this process."""
import os
import subprocess
import time

ADDRESSES = ("10.0.0.1", "10.0.0.2")
# What lives until its parent, the test, ends: whatever ends that.
KEPT = ["setpriv", "--pdeathsig", "KILL", "--"]


class Missing(Exception):
    """What this machine lacks, in words for a skipped test."""


def _space(process):
    return os.readlink(f"/proc/{process}/ns/uts")


class Hosts:
    """10.0.0.1 (host-1) and 10.0.0.2 (host-2)."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Missing("network namespaces need root")
        self.holders = []
        for number in (1, 2):
            holder = subprocess.Popen(KEPT + ["unshare", "--net", "--uts", "sleep", "infinity"])
            self.holders.append(holder)
            deadline = time.monotonic() + 10
            while _space(holder.pid) == _space("self"):
                if holder.poll() is not None or time.monotonic() > deadline:
                    raise Missing("this machine lets no network namespace be made")
                time.sleep(0.005)
            self._set_up(number, "hostname", f"host-{number}")
            self._set_up(number, "ip", "link", "set", "lo", "up")
        self.join("eth0", ADDRESSES)

    def join(self, device, addresses):
        """One more cable between the two."""
        self._run("ip", "link", "add", device, "netns", str(self.holders[0].pid), "type", "veth", "peer", "name", device,
                  "netns", str(self.holders[1].pid))
        for number, address in enumerate(addresses, 1):
            self._set_up(number, "ip", "address", "add", address + "/24", "dev", device)
            self._set_up(number, "ip", "link", "set", device, "up")

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()

    def on(self, number, *command):
        """The command line that runs `command` on host 1 or 2."""
        return ["nsenter", "-t", str(self.holders[number - 1].pid), "--net", "--uts", "--", *command]

    def write_agent(self, path):
        """A program that launchers call in ssh's place: an address, then a command line for its shell."""
        cases = "".join(f"  {address}) shift; exec {' '.join(self.on(number))} sh -c \"$*\" ;;\n"
                        for number, address in enumerate(ADDRESSES, 1))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\ncase \"$1\" in\n{cases}esac\n"
                       "echo \"no host $1\" >&2\nexit 1\n")
        os.chmod(path, 0o755)

    def _set_up(self, number, *command):
        self._run(*self.on(number, *command))

    @staticmethod
    def _run(*command):
        try:
            subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing(f"cannot join namespaces: {error}") from error
