# SPDX-License-Identifier: Apache-2.0
import unittest

from starling_plans import COLLECTIVES, Plan, PlanError, inbox, recv, send, trace

from .plans import direct


class TraceTest(unittest.TestCase):
    def test_runs_every_step_of_every_collective(self):
        for collective in COLLECTIVES:
            plan = direct(collective, 4)
            steps = sum(len(lane.steps) for lanes in plan.lanes for lane in lanes)
            self.assertEqual(len(trace(plan)), steps, collective)

    def test_waits_for_the_put_that_a_chunk_comes_from(self):
        plan = Plan("p", "broadcast", 2, root=0)
        plan.lane(0).put(1, source=send[0])
        receiver = plan.lane(1)
        receiver.wait(0, of=recv[0])
        receiver.copy(recv[0], source=inbox[0])
        receiver.release(0, of=recv[0])
        put, wait, *_ = trace(plan)
        self.assertEqual((put.tick, put.step.kind), (0, "put"))
        self.assertEqual((wait.tick, wait.sent, wait.rank), (1, 0, 1))

    def test_unrolls_repeats_and_keeps_their_numbers(self):
        plan = Plan("p", "broadcast", 2, root=0, credits=2)
        lane = plan.lane(0)
        with lane.repeat(2):
            lane.put(1, source=send[0])
        receiver = plan.lane(1)
        with receiver.repeat(2):
            receiver.wait(0, of=recv[0])
            receiver.release(0, of=recv[0])
        self.assertEqual([event.number for event in trace(plan) if event.rank == 1], [1, 2, 1, 2])

    def test_names_every_step_that_waits_for_ever(self):
        plan = Plan("p", "all_gather", 2)
        for rank in (0, 1):
            lane = plan.lane(rank)
            lane.put(1 - rank, source=send[0])
            lane.put(1 - rank, source=send[0])  # the link holds one chunk, and both wait for room before they take any
            for _ in range(2):
                lane.wait(1 - rank, of=recv[0])
                lane.release(1 - rank, of=recv[0])
        with self.assertRaisesRegex(PlanError, r"rank 0 lane 0 step 1: put 1 = send\[0\]\n.*rank 1 lane 0 step 1"):
            trace(plan)
        plan.credits = 2
        self.assertEqual(len(trace(plan)), 12)

    def test_names_chunks_that_nobody_waits_for(self):
        plan = Plan("p", "broadcast", 2, root=0)
        plan.lane(0).put(1, source=send[0])
        with self.assertRaisesRegex(PlanError, "1 from rank 0 to rank 1 on lane 0"):
            trace(plan)


if __name__ == "__main__":
    unittest.main()
