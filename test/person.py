"""Somebody who steers a run of real processes by ROS, from the test's own process."""

from desk import Desk
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from std_msgs.msg import Bool, Float64MultiArray
from waiting import PATIENCE

from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import to_tick


class Person:
    """Listens to a run of real processes, and steers it."""

    def __init__(self, harness):
        self._harness = harness
        self._health = harness.listen(DiagnosticArray, "/diagnostics")
        self.commands = harness.listen(Float64MultiArray, "controller/commands")
        self.goals = harness.listen(PoseStamped, topics.GOAL)
        self._ticks = harness.listen(Float64MultiArray, "controller/ticks")
        self._stop = harness.node.create_publisher(Bool, "stop", topics.STREAM)
        self.supervisor, self.learner, self.simulator = (
            Desk(harness, name) for name in ("supervisor", "learner", "simulator")
        )

    def wait_for(self, phase, episode=None):
        """Until the supervisor says so; episode None: any."""

        def found():
            told = (s for m in self._health for s in m.status if s.name == "/supervisor")
            values = [{entry.key: entry.value for entry in status.values} for status in told]
            self._health.clear()
            places = [v["episode"] for v in values if v["phase"] == phase.value]
            return bool(places) if episode is None else str(episode) in places

        assert self._harness.wait(found, PATIENCE), phase

    def wait_for_tick(self, episodes):
        """Until as many episodes have begun."""
        step = lambda message: int(to_tick(message).step)  # noqa: E731
        begun = lambda: sum(step(message) == 0 for message in self._ticks)  # noqa: E731
        assert self._harness.wait(lambda: begun() == episodes, PATIENCE)

    def stop(self, on):
        assert self._harness.wait(lambda: self._stop.get_subscription_count() >= 2)
        self._stop.publish(Bool(data=on))
