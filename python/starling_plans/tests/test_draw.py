# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import os
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from starling_plans import Plan, inbox, recv, save, send, to_svg, trace
from starling_plans.__main__ import main

from .plans import direct

SVG = "{http://www.w3.org/2000/svg}"


class DrawTest(unittest.TestCase):
    def test_draws_an_arrow_for_every_chunk_and_a_column_for_every_rank(self):
        plan = direct("all_reduce", 4)
        picture = ElementTree.fromstring(to_svg(plan))
        chunks = [event for event in trace(plan) if event.step.kind == "wait"]
        self.assertEqual(len(picture.findall(f"{SVG}line")), len(chunks))
        heads = [text.text for text in picture.findall(f"{SVG}text")]
        self.assertEqual(heads[1:], ["rank 0", "rank 1", "rank 2", "rank 3"])

    def test_draws_lanes_beside_each_other(self):
        plan = Plan("two", "broadcast", 2, root=0)
        for link_lane in (0, 1):
            plan.lane(0, link_lane).put(1, source=send[0])
            lane = plan.lane(1, link_lane)
            lane.wait(0, of=recv[0])
            lane.copy(recv[0], source=inbox[0])
            lane.release(0, of=recv[0])
        picture = ElementTree.fromstring(to_svg(plan))
        self.assertIn("rank 1 lane 1", [text.text for text in picture.findall(f"{SVG}text")])

    def test_is_what_the_command_line_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, picture = os.path.join(folder, "a.plan"), os.path.join(folder, "a.svg")
            save(direct("gather", 3), plan)
            self.assertEqual(main(["draw", plan, picture]), 0)
            with open(picture, encoding="utf-8") as file:
                self.assertEqual(file.read(), to_svg(direct("gather", 3)))
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(main(["print", plan]), 0)
            self.assertIn("# step 0", said.getvalue())
            with contextlib.redirect_stderr(said):
                self.assertEqual(main(["print", os.path.join(folder, "none.plan")]), 1)


if __name__ == "__main__":
    unittest.main()
