# SPDX-License-Identifier: Apache-2.0
"""What the tests of the installed tree share: where it is, and how its programs and other builds are run."""
import os
import shutil
import subprocess
import unittest

PREFIX = os.environ["SL_PREFIX"]
WORK = os.environ["SL_WORK"]
STARLING = os.path.join(PREFIX, "bin", "starling")
EXAMPLES = os.path.join(PREFIX, "share", "starling", "examples")
# Nothing of Starling's own is set: what is installed must find itself.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("STARLING_", "LD_", "SL_"))}


class InstalledTest(unittest.TestCase):
    """A test with a fresh folder of its own and a way to run commands that must succeed."""

    def setUp(self):
        self.work = os.path.join(WORK, self.id().rsplit(".", 1)[-1])
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)

    def run_command(self, *command, code=0, **environment):
        """Both streams of a command, which must end with `code` within four minutes."""
        result = subprocess.run(command, env={**ENVIRONMENT, **environment}, cwd=self.work, timeout=240, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(result.returncode, code, f"{' '.join(command)}\n{result.stdout}")
        return result.stdout

    def copy_example(self, name):
        return shutil.copytree(os.path.join(EXAMPLES, name), os.path.join(self.work, name))

    def build(self, source, *options):
        """Configures and builds a project against the installed tree; the folder its modules are in."""
        build = os.path.join(self.work, "build")
        self.run_command(os.environ["CMAKE"], "-S", source, "-B", build, "-G", "Ninja",
                         "-DCMAKE_PREFIX_PATH=" + PREFIX, "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -Wno-unused-parameter", *options)
        self.run_command(os.environ["CMAKE"], "--build", build)
        return os.path.join(build, "lib", "starling")

    def check_algorithm(self, module, provider):
        """A module, given by its file, conforms, and is found, explained, chosen by a profile and right beside those that
        are installed."""
        self.run_command(STARLING, "conform", "--strict", module)
        folder = os.path.dirname(module)
        profile = os.path.join(self.work, "profile.toml")
        with open(profile, "w", encoding="utf-8") as file:
            file.write(f'profile_version = 1\n[[select]]\nop = "all_reduce"\nalgorithm = "{provider}"\n')
        modules = {"STARLING_MODULE_PATH": os.path.join(PREFIX, "lib", "starling") + ":" + folder}
        explained = self.run_command(STARLING, "explain", "all_reduce", "4K", "--ranks", "4", "--profile", profile, **modules)
        self.assertIn(f"chosen: {provider}, pinned by {profile}", explained)
        for ranks in ("2", "3"):
            table = self.run_command(STARLING, "bench", "all_reduce", "--ranks", ranks, "-b", "4", "-e", "256K", "-f", "16",
                                     "-n", "3", "-w", "1", "-o", "all", "--profile", profile, **modules)
            self.assertIn("Out of bounds values : 0 OK", table)
