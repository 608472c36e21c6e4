# SPDX-License-Identifier: Apache-2.0
import unittest

from starling_plans import Plan, PlanError, inbox, outbox, raw, recv, scratch, send


class PlanTest(unittest.TestCase):
    def test_writes_steps_as_a_file_holds_them(self):
        lane = Plan("p", "all_reduce", 3).lane(1)
        lane.put(2, source=recv[1])
        lane.reduce(recv[0], outbox[2], a=inbox[0], b=raw(send[0]), final=True, of=send[0])
        with lane.repeat(4):
            lane.copy(scratch[0, -1], source=inbox[0])
        self.assertEqual([str(step) for step in lane.steps],
                         ["put 2 = recv[1]", "reduce recv[0] outbox[2] = inbox[0] op raw send[0] final of send[0]", "repeat 4"])
        self.assertEqual(str(lane.steps[2].body[0]), "copy scratch[0,-1] = inbox[0]")

    def test_moves_the_part_of_the_first_block_that_a_step_names(self):
        lane = Plan("p", "all_reduce", 3).lane(1)
        lane.reduce(outbox[2], a=inbox[0], b=raw(send[2]))
        lane.copy(recv[1], source=inbox[0], of=recv[0])
        self.assertEqual([step.shape() for step in lane.steps], [send[2], recv[0]])

    def test_leaves_out_what_repeats_no_times(self):
        lane = Plan("p", "all_reduce", 2).lane(0)
        with lane.repeat(0):
            lane.wait(1, of=send[0])
        with lane.repeat(3):
            pass
        self.assertEqual(lane.steps, [])

    def test_refuses_what_cannot_be_part_of_a_plan(self):
        plan = Plan("p", "all_reduce", 2)
        lane = plan.lane(0)
        wrong = {
            "is this rank itself": lambda: lane.wait(0, of=send[0]),
            "put: rank -1 is not one of the 2": lambda: lane.put(-1, of=send[0]),
            "wait: rank 2 is not one of the 2": lambda: lane.wait(2, of=send[0]),
            "reduce: rank 3 is not one of the 2": lambda: lane.reduce(recv[0], a=raw(send[0]), b=inbox[3]),
            "copy: rank 4 is not one of the 2": lambda: lane.copy(outbox[4], source=recv[0]),
            "can only be read": lambda: lane.copy(send[0], source=recv[0]),
            "whose part": lambda: lane.copy(outbox[1], source=inbox[1]),
            "part this step moves": lambda: lane.release(1, of=inbox[1]),
            "one or two": lambda: lane.copy(source=send[0]),
            "count from 0": lambda: send[-1],
            "does not move": lambda: inbox[1, 1],
            "not one of the 2": lambda: plan.lane(2),
            "is no collective": lambda: Plan("p", "all_sum", 2),
            "is no determinism": lambda: Plan("p", "all_reduce", 2, determinism="always"),
            "2 to 1024": lambda: Plan("p", "all_reduce", 1),
            "needs a root": lambda: Plan("p", "broadcast", 2),
            "has no root": lambda: Plan("p", "all_reduce", 2, root=0),
            "one word": lambda: Plan("two words", "all_reduce", 2),
        }
        for text, call in wrong.items():
            with self.subTest(text), self.assertRaisesRegex(PlanError, text):
                call()

    def test_refuses_a_repeat_inside_a_repeat(self):
        lane = Plan("p", "all_reduce", 2).lane(0)
        with self.assertRaisesRegex(PlanError, "repeat inside a repeat"):
            with lane.repeat(2), lane.repeat(2):
                pass


if __name__ == "__main__":
    unittest.main()
