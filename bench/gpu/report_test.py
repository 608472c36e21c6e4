#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What report.py makes of records, which are made here."""
import contextlib
import csv
import io
import json
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree

import floor
import nccl_tests
import plot
import record
import report

CONDITIONS = {"processor": "A processor", "gpu": "A GPU", "cuda_driver": 13000, "gpus": 4, "rounds": 3,
              "datatype": "bfloat16", "op": "sum", "environment": {"NCCL_NVLS_ENABLE": "0"},
              "libraries": [{"version": 22809, "fingerprint": "a"}, {"version": 22703, "fingerprint": "b"}]}


def point(collective, issue, memory, size, ours, theirs=None, **more):
    """Medians, with rounds one percent around them; 0: not served, None: no such library."""
    us = [[time * 0.99, time * 1.01, time] if time else [] for time in (ours, theirs) if time is not None]
    return {"collective": collective, "issue": issue, "memory": memory, "bytes": size, "us": us, "right": True, **more}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, points, name="record.json", **conditions):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"starling_gpu_bench": 1, "paths": ["ours.so", "theirs.so"],
                       "conditions": {**CONDITIONS, **conditions}, "points": points}, file)
        return path

    def text(self, points, **conditions):
        return "\n".join(report.text(record.read(self.file(points, **conditions))))

    def part(self, points, part, **conditions):
        return list(part(record.read(self.file(points, **conditions))))


class Report(Case):
    def test_marks_every_loss_and_lists_the_worst_first(self):
        text = self.text([point("all_reduce", "graph", "plain", 8, 4, 8),
                          point("all_reduce", "graph", "plain", 2048, 10, 9.6),
                          point("broadcast", "eager", "plain", 524288, 10, 7.4),
                          point("broadcast", "eager", "plain", 2048, 10, 9.8)])
        marked = [line.split()[0] for line in text.splitlines() if line.endswith(" LOSS")]
        self.assertEqual(marked, ["2048", "524288"])
        lines = text.splitlines()
        at = lines.index("lost (below 0.97 times as fast): 2 of 4")
        self.assertIn("broadcast of 512 KiB, eager, plain buffers: 0.74, 10.0 against 7.40 µs", lines[at + 1])
        self.assertIn("all_reduce of 2 KiB, graph, plain buffers: 0.96", lines[at + 2])

    def test_says_how_operations_follow_each_other(self):
        text = self.text([point("all_reduce", issue, "plain", 8, 4, 8) for issue in ("graph", "dependent")])
        self.assertIn("all_reduce, graph (captured in a chain, each on the same buffers), plain buffers", text)
        self.assertIn("all_reduce, dependent (called one by one, each on what the one before left), plain buffers", text)

    def test_means_are_geometric_over_each_kind(self):
        lines = self.part([point("all_reduce", "graph", "plain", 8, 1, 2), point("all_reduce", "eager", "plain", 8, 1, 8),
                           point("broadcast", "graph", "symmetric", 8, 2, 1)], report.means)
        self.assertEqual({line.split()[0]: float(line.split()[1]) for line in lines[1:]},
                         {"all_reduce": 4, "broadcast": 0.5, "eager": 8, "graph": 1, "plain": 4, "symmetric": 0.5,
                          "all": 2})
        self.assertIn("(3 points, 1 lost)", lines[-1])

    def test_best_of_the_peer_is_the_quicker_of_plain_and_symmetric(self):
        lines = self.part([point("all_reduce", "graph", "plain", 8, 2, 8), point("all_reduce", "graph", "symmetric", 8, 9, 4),
                           point("all_reduce", "graph", "plain", 32, 2, 4), point("all_reduce", "graph", "symmetric", 32, 9, 8),
                           point("all_reduce", "eager", "plain", 8, 2, 2), point("all_gather", "graph", "symmetric", 8, 1, 1)],
                          report.score)
        self.assertIn("2.00  (3 points, 0 lost)", lines[1])  # 4, 2 and 1
        self.assertIn("worst: all_reduce of 8 B, eager (1.00)", lines[2])
        self.assertIn("2.00  (2 points, 0 lost)", lines[3])  # 2 and 2: where both were measured, graph against graph

    def test_score_says_what_was_not_measured(self):
        lines = self.part([point("all_reduce", "graph", "plain", 8, 2, 8)], report.score)
        self.assertEqual(lines[-1].split(), ["its", "best,", "plain", "or", "symmetric", "not", "measured"])

    def test_claims_stand_beside_what_is_measured_at_the_nearest_size(self):
        lines = self.part([point("all_reduce", "eager", "plain", 64, 4, 16),
                           point("all_reduce", "eager", "symmetric", 64, 2, 8),
                           point("all_reduce", "eager", "plain", 2048, 5, 10)], report.claims)
        self.assertEqual(lines[2].split(), ["64", "B", "9.0x", "2.00x", "4.00x", "8.00x"])
        self.assertEqual(lines[3].split()[:6], ["4", "KiB", "7.6x", "-", "2.00x", "-"])
        self.assertIn("at 2 KiB, the nearest that was measured", lines[3])
        self.assertEqual(lines[5].split(), ["8", "MiB", "3.3x", "-", "-", "-"])  # nothing within a factor of four
        self.assertEqual(len(lines), 6)  # no graph

    def test_a_missing_peer_is_no_comparison(self):
        libraries = CONDITIONS["libraries"][:1]
        text = self.text([point("all_reduce", "graph", "plain", 8, 4)], libraries=libraries)
        self.assertIn("nothing to compare", text)
        self.assertIn("not measured: it takes all_reduce", text)
        self.assertNotIn("peer:", text)
        self.assertNotIn("lost (", text)

    def test_an_empty_record_has_a_report_and_a_plot(self):
        self.assertIn("nothing to compare", self.text([]))
        xml.etree.ElementTree.fromstring(plot.to_svg(record.read(self.file([]))))

    def test_one_gpu_has_no_bus(self):
        lines = self.part([point("all_reduce", "graph", "plain", 8, 4, 5, ctas=2)], report.budgets, gpus=1)
        self.assertIn("0.00 / 0.00", lines[-1])

    def test_noisy_and_wrong_points_are_marked_and_listed(self):
        noisy = point("all_reduce", "graph", "plain", 8, 4, 8)
        noisy["us"][1] = [8, 12.1, 8]
        quiet = point("all_reduce", "graph", "plain", 32, 4, 8)
        quiet["us"][1] = [8, 12, 8]
        wrong = point("all_reduce", "graph", "plain", 64, 4, 8, right=False)
        text = self.text([noisy, quiet, wrong])
        self.assertEqual([line.split()[0] for line in text.splitlines() if line.endswith(" NOISY")], ["8"])
        self.assertIn("all_reduce of 8 B, graph, plain buffers: ours 1.02, peer 1.51", text)
        self.assertEqual([line.split()[0] for line in text.splitlines() if line.endswith(" WRONG")], ["64"])
        self.assertIn("all_reduce of 64 B, graph, plain buffers: !", text)

    def test_budgets_are_a_table_of_their_own(self):
        mebibyte = 1 << 20
        points = [point("all_gather", "graph", "plain", mebibyte, 10, 20),
                  point("all_gather", "graph", "plain", mebibyte, 0, 0, ctas=0),
                  point("all_gather", "graph", "plain", mebibyte, 15.728640, 31.457280, ctas=2),
                  point("all_gather", "graph", "plain", mebibyte, 7.864320, 0, ctas=16)]
        lines = self.part(points, report.budgets)
        self.assertEqual(lines[2].split(), ["bytes", "0", "2", "16"])
        # 50: three quarters of 1 MiB in 15.7 µs
        self.assertEqual(re.split("  +", lines[3].strip()), ["1048576", "not served", "50.0 / 25.0", "100 / not served"])
        self.assertIn("(1 points", "\n".join(self.part(points, report.means)))
        self.assertNotIn("nothing to compare", self.text(points[1:]))

    def test_slices_are_put_together(self):
        first = self.file([point("all_reduce", "graph", "plain", 8, 4, 8)], "1.json")
        second = self.file([point("all_reduce", "graph", "plain", 32, 4, 8)], "2.json")
        self.assertEqual([one.bytes for one in record.merge([first, second]).points], [8, 32])
        with self.assertRaisesRegex(record.Failure, "all_reduce of 8 B, graph, plain buffers is in .*1.json and in"):
            record.merge([first, first])
        other = self.file([], "3.json", rounds=5)
        with self.assertRaisesRegex(record.Failure, "3.json was measured under other conditions.*rounds is 3 and 5"):
            record.merge([first, other])

    def test_a_record_that_names_no_operation_is_of_sums(self):
        older = self.file([], "old.json")
        with open(older, encoding="utf-8") as file:
            document = json.load(file)
        del document["conditions"]["op"]
        with open(older, "w", encoding="utf-8") as file:
            json.dump(document, file)
        self.assertIn("bfloat16, sum, ", "\n".join(report.text(record.read(older))))

    def test_elements_more_are_told_where_there_are_any(self):
        self.assertNotIn("elements more", "\n".join(report.text(record.read(self.file([])))))
        odd = record.read(self.file([], "odd.json", more_elements=3))
        self.assertIn("3 rounds, 3 elements more in every rank's part", "\n".join(report.text(odd)))

    def test_what_is_no_record_is_refused_by_name(self):
        path = os.path.join(self.folder, "bad.json")
        whole = self.file([point("all_reduce", "graph", "plain", 8, 4, 8)])
        with open(whole, encoding="utf-8") as file:
            half = file.read()[:-20]
        for text in ("", half, "[]", "{}", '{"starling_gpu_bench": 2}', '{"starling_gpu_bench": 1}',
                     '{"starling_gpu_bench": 1, "paths": [], "conditions": {}, "points": [{}]}'):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(record.Failure, "bad.json"):
                record.read(path)
        with self.assertRaisesRegex(record.Failure, "none.json"):
            record.read(os.path.join(self.folder, "none.json"))

    def test_csv_holds_the_medians(self):
        path = self.file([point("all_reduce", "graph", "plain", 8, 4, 8),
                          point("all_gather", "graph", "plain", 8, 4, 0, ctas=2)])
        out = os.path.join(self.folder, "out.csv")
        with contextlib.redirect_stdout(io.StringIO()):
            report.report([path], csv_path=out)
        with open(out, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[1:], [["all_reduce", "graph", "plain", "8", "", "4", "8", "1"],
                                    ["all_gather", "graph", "plain", "8", "2", "4", "", "1"]])


class Floor(Case):
    FIGURES = {"gpu": "A GPU", "gpus": 4, "launch_us": 4, "dependent_launch_us": 3, "operation_us": 2,
               "wire_gb_per_s": 300}

    def figures(self, **more):
        path = os.path.join(self.folder, "floor.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.FIGURES, **more}, file)
        return path

    def test_weighs_what_could_be_beside_what_is(self):
        # 4 µs on the wire: an all-reduce of 4 ranks sends 1.5 times its bytes.
        file = self.file([point("all_reduce", "graph", "plain", 800000, 8, 12), point("all_reduce", "eager", "plain", 8, 6, 9),
                          point("all_reduce", "eager", "symmetric", 8, 1, 9)])
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            report.report([file], floor_path=self.figures())
        lines = out.getvalue().splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("floor, by bench_floor"))
        self.assertIn("an operation 2.00 µs, a launch 3.00, the wire 300 GB/s", lines[at])
        self.assertRegex(lines[at + 1], r"graph +2\.00 at the floor, ours 1\.50, 75 %  \(1 points\)")
        self.assertRegex(lines[at + 2], r"eager +3\.00 at the floor, ours 1\.50, 50 %  \(1 points\)")
        self.assertRegex(lines[at + 3], r"all +2\.45 at the floor, ours 1\.50, 61 %  \(2 points\)")

    def test_refuses_figures_of_another_machine_or_none(self):
        measured = record.read(self.file([point("all_reduce", "graph", "plain", 8, 4, 8)]))
        with self.assertRaisesRegex(record.Failure, "floor.json: of 2 x A GPU, but the record is of 4 x A GPU"):
            floor.read(self.figures(gpus=2), measured)
        path = self.figures()
        for text, wrong in (("{}", "it lacks gpu, gpus"), ("3", "not what bench_floor writes"), ("{", "not what bench_floor")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(record.Failure, wrong):
                floor.read(path, measured)

    def test_says_when_nothing_is_to_be_weighed(self):
        self.assertIn("nothing to hold", self.part([], lambda of: floor.weigh(of, self.FIGURES))[0])


class NcclTests(Case):
    TABLE = ("# nccl-tests version 2.19.6\n#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
             "           8             4  bfloat16     sum      -1    {}    0.00    0.00       0     9.99    0.00    0.00       0\n"
             "     2097152       1048576  bfloat16     sum      -1    20.00   13.43  13.43       0    9.99    0.00    0.00       0\n"
             "# Out of bounds values : 0 OK\n")

    def folder_of_programs(self, text):
        """nccl-tests' programs, which all print `text`; and a `starling` that starts what it is told to."""
        for name in ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf"):
            self.script(name, f"cat <<'TEXT'\n{text}TEXT\n")
        return self.script("starling", 'shift 4\nexec "$@"\n')

    def script(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}")
        os.chmod(path, 0o755)
        return path

    def test_stands_beside_what_was_measured_and_marks_what_is_far_apart(self):
        starling = self.folder_of_programs(self.TABLE.format("4.80"))
        measured = record.read(self.file([point("all_reduce", "graph", "plain", 8, 4, 4.5),
                                          point("all_reduce", "graph", "plain", 2 << 20, 19, 0),
                                          point("all_reduce", "eager", "symmetric", 2 << 20, 19, 21)]))
        found = nccl_tests.measure(measured, self.folder, starling)
        self.assertEqual(len(found), 10)
        self.assertEqual(found["all_reduce", "graph", 8], [4.8, 4.8])
        lines = list(nccl_tests.table(measured, found))
        self.assertEqual(lines[2].split(), "all_reduce of 8 B, graph 4.00 4.80 +20% DIFFERS 4.50 4.80 +7%".split())
        self.assertEqual(next(line for line in lines if "2 MiB, graph" in line).split(),
                         "all_reduce of 2 MiB, graph 19.0 20.0 +5% - 20.0".split())
        self.assertEqual(sum(line.endswith("not in this record") for line in lines), 8)
        self.assertEqual(lines[-1], "1 of 10 points differ by more than 15%")

    def test_names_what_fails(self):
        measured = record.read(self.file([]))
        with self.assertRaisesRegex(record.Failure, "there is no .*all_gather_perf and no .*all_reduce_perf and no"):
            nccl_tests.require(self.folder)
        starling = self.folder_of_programs(self.TABLE)
        nccl_tests.require(self.folder, "0")
        with self.assertRaisesRegex(record.Failure, "nothing like --more-elements"):
            nccl_tests.require(self.folder, "1")
        self.script("all_reduce_perf", "echo 'no such device'\nexit 3\n")
        with self.assertRaisesRegex(record.Failure, "all_reduce_perf -t 4 .* over ours.so: exit code 3\n  | no such device"):
            nccl_tests.measure(measured, self.folder, starling)
        self.script("all_reduce_perf", "echo 'starling run: it does not run on Starling' >&2\necho 8 4 t sum -1 4.0\n")
        with self.assertRaisesRegex(record.Failure, "does not run on Starling"):
            nccl_tests.measure(measured, self.folder, starling)


class Plot(Case):
    def test_has_a_panel_for_each_collective_with_both_lines_and_their_extremes(self):
        points = [point(collective, issue, "plain", size, size / 8, size / 4)
                  for collective in ("all_reduce", "all_gather") for issue in ("eager", "graph") for size in (8, 32, 128)]
        points[0]["us"] = [[9], [1]]
        path = self.file(points, gpu="<GPU & more>")
        document = xml.etree.ElementTree.fromstring(plot.to_svg(record.read(path)))
        names = [element.tag.split("}")[1] for element in document.iter()]
        self.assertEqual(names.count("g"), 4)
        self.assertEqual(names.count("polyline"), 8)
        self.assertEqual(names.count("polygon"), 8)
        rings = [element for element in document.iter() if element.get("class") == "lost"]
        self.assertEqual(len(rings), 2)  # one is the legend's

    def test_leaves_out_what_a_library_does_not_serve(self):
        document = plot.to_svg(record.read(self.file([point("all_reduce", "graph", "plain", 8, 4, 0)])))
        self.assertEqual(document.count("<polyline"), 1)


if __name__ == "__main__":
    unittest.main()
