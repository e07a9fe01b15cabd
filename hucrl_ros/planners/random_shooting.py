"""Random shooting."""

from hucrl_ros.planners.base import Array
from hucrl_ros.planners.cem import ElitesProposal
from hucrl_ros.planners.shooting import Proposal, ShootingPlanner


class RandomShooting(ShootingPlanner):
    """Random shooting: samples efforts around zero, sends the best (Richards & How 2006).

    The distribution is never refitted and nothing is kept from tick to tick: iterations only
    add particles.
    """

    def _proposal(self, memory: Array) -> Proposal:
        return ElitesProposal(self.settings, self._draw, self._nothing[0], refits=frozenset())
