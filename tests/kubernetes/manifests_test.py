#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manifests of configs/kubernetes: every field is one of the API's, and what the containers run works, here on one host.

Exit code: 0 good, 1 failure, 77 skipped, with the reason.
"""
import copy
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing} (python3-jsonschema, python3-yaml)")
    sys.exit(77)

SOURCE = os.environ["SL_TEST_SOURCE_DIR"]
FOLDER = os.path.join(SOURCE, "configs", "kubernetes")
ENVIRONMENT = {"PATH": os.path.join(os.environ["SL_TEST_BUILD_DIR"], "bin") + ":" + os.environ["PATH"], "HOME": "/"}


def load(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return yaml.safe_load(file)


def problems(manifest):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    # Of the two kinds, the one it says it is: so that words are about that.
    kind = {**schema, "$ref": "#/definitions/" + str(manifest.get("kind"))}
    del kind["oneOf"]
    return [f"{list(error.absolute_path)}: {error.message}" for error in jsonschema.Draft7Validator(kind).iter_errors(manifest)]


class Manifests(unittest.TestCase):
    def test_say_what_the_schema_knows(self):
        files = glob.glob(os.path.join(FOLDER, "*.yaml"))
        self.assertEqual(len(files), 2)
        for file in files:
            self.assertEqual(problems(load(os.path.basename(file))), [], file)

    def refuse(self, name, words, change):
        manifest = copy.deepcopy(load(name))
        change(manifest)
        self.assertTrue(any(words in problem for problem in problems(manifest)), problems(manifest))

    def test_an_unknown_field_is_refused(self):
        self.refuse("mpijob.yaml", "'cleanPods' was unexpected", lambda job: job["spec"].update(cleanPods="Running"))
        self.refuse("jobset.yaml", "'comand' was unexpected", lambda job: self.container(job).update(comand=["sh"]))

    def test_a_wrong_type_is_refused(self):
        self.refuse("mpijob.yaml", "'2' is not of type 'integer'", lambda job: job["spec"].update(slotsPerWorker="2"))
        self.refuse("jobset.yaml", "8 is not of type 'string'", lambda job: self.container(job).update(args=["-b", 8]))

    def test_what_is_missing_or_no_choice_is_refused(self):
        self.refuse("mpijob.yaml", "'Worker' is a required property", lambda job: job["spec"]["mpiReplicaSpecs"].pop("Worker"))
        self.refuse("jobset.yaml", "'Maybe' is not one of", lambda job: self.pod(job).update(restartPolicy="Maybe"))

    @staticmethod
    def pod(jobset):
        return jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]

    @classmethod
    def container(cls, jobset):
        return cls.pod(jobset)["containers"][0]

    def test_the_ranks_of_the_jobset_meet(self):
        jobset = load("jobset.yaml")
        job = jobset["spec"]["replicatedJobs"][0]
        container = self.container(jobset)
        variables = {each["name"]: each.get("value") for each in container["env"]}
        # What the cluster does: names of pods, and the number of each.
        self.assertEqual(variables["MASTER_ADDR"], "{0}-{1}-0-0.{0}".format(jobset["metadata"]["name"], job["name"]))
        self.assertEqual(job["template"]["spec"]["completions"], int(variables["WORLD_SIZE"]))
        variables.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 1000 * 8))
        words = ["1M" if word == "64M" else word for word in container["command"] + container["args"]]
        ranks = [subprocess.Popen(words, env={**ENVIRONMENT, **variables, "RANK": str(rank)}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(4)]
        said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * 4, "\n".join(said))
        self.assertIn("Out of bounds values : 0 OK", said[0])

    @unittest.skipIf(shutil.which("mpirun.openmpi") is None, "mpirun is not installed (openmpi-bin)")
    def test_the_launcher_of_the_mpijob_starts_its_ranks(self):
        job = load("mpijob.yaml")["spec"]
        container = job["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        ranks = job["slotsPerWorker"] * job["mpiReplicaSpecs"]["Worker"]["replicas"]
        with tempfile.TemporaryDirectory() as folder:
            hosts = os.path.join(folder, "hostfile")
            with open(hosts, "w", encoding="utf-8") as file:
                file.write(f"localhost slots={ranks}\n")
            line = container["args"][0].replace("/etc/mpi/hostfile", hosts).replace("64M", "1M")
            line = line.replace("mpirun", "mpirun.openmpi --oversubscribe")
            done = subprocess.run(container["command"] + [line], timeout=60, text=True, check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env={**ENVIRONMENT, "OMPI_MCA_orte_default_hostfile": hosts})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"-n {ranks} ", line)
        self.assertIn("Out of bounds values : 0 OK", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
