# SPDX-License-Identifier: Apache-2.0
import os
import tempfile
import unittest

from starling_plans import COLLECTIVES, Plan, PlanError, load, parse, recv, save, send, to_text

from .plans import direct


class TextTest(unittest.TestCase):
    def test_reads_what_it_wrote(self):
        plan = Plan("p", "all_reduce", 2, blocks=4, scratch=1, credits=3, chunk_bytes=4096, sizes=(8, 1024))
        lane = plan.lane(1, link_lane=1)
        with lane.repeat(3):
            lane.wait(0, of=send[3, -1])
            lane.release(0, of=send[3, -1])
        lane.put(0, source=recv[0])
        plans = [plan, *(direct(collective, 3) for collective in COLLECTIVES)]
        for plan in plans:
            with self.subTest(plan.name):
                self.assertEqual(parse(to_text(plan)), plan)
                self.assertEqual(parse(to_text(plan, numbered=True)), plan)

    def test_keeps_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.plan")
            save(direct("all_gather", 2), path)
            self.assertEqual(load(path), direct("all_gather", 2))

    def test_numbers_steps_as_messages_do(self):
        plan = Plan("p", "all_reduce", 2)
        lane = plan.lane(0)
        with lane.repeat(3):
            lane.wait(1, of=send[0])
        lane.release(1, of=send[0])
        numbered = [line.split() for line in to_text(plan, numbered=True).splitlines() if "# step" in line]
        self.assertEqual([(words[0], words[-1]) for words in numbered], [("repeat", "0"), ("wait", "1"), ("release", "2")])

    def test_says_file_line_and_remedy_of_what_is_wrong(self):
        good = to_text(direct("all_reduce", 2))
        wrong = {
            ("starling-plan 1", "starling-plan 2"): r"a.plan:1: .*starling-plan 1",
            ("ranks 2", "ranks two"): r"a.plan:4: not a number: .*two",
            ("ranks 2", "ranks"): r"a.plan:4: the line ends too early",
            ("determinism rank", "order rank"): r"a.plan:5: 'order' is no key",
            ("name direct-all_reduce\n", ""): r"the head lacks name",
            ("lane 0\n", ""): r"before the rank's first lane",
            ("rank 1", "rank 2"): r"rank 2 stands where rank 1 of 2 must stand",
            ("wait 1 of", "wait 1 for"): r"say whose part|too much",
            ("wait 1 of send[0]", "wait 1 of sent[0]"): r"'sent\[0\]' is no operand",
            ("wait 1 of", "jump 1 of"): r"'jump' is no step",
            ("rank 1", "repeat 2\nrank 1"): r"the repeat before has no end",
            ("rank 1", "end\nrank 1"): r"end without a repeat",
            ("ranks 2", "ranks 2 4"): r"a.plan:4: '4' is too much on this line",
            ("rank 1", "rank 1 2"): r"'2' is too much on this line",
            ("lane 0", "lane 0 1"): r"'1' is too much on this line",
            ("wait 1 of", "wait 2 of"): r"rank 2 is not one of the 2",
        }
        for (before, after), text in wrong.items():
            with self.subTest(after), self.assertRaisesRegex(PlanError, text):
                self.assertIn(before, good)
                parse(good.replace(before, after, 1), "a.plan")
        with self.assertRaisesRegex(PlanError, "every rank must be there"):
            parse("starling-plan 1\n")

    def test_a_file_that_is_no_text_is_an_error_with_its_place(self):
        with tempfile.NamedTemporaryFile(suffix=".plan") as file:
            file.write(b"starling-plan 1\nname \xff\n")
            file.flush()
            with self.assertRaisesRegex(PlanError, r"\.plan:2: no text in UTF-8; a plan file begins with"):
                load(file.name)


if __name__ == "__main__":
    unittest.main()
