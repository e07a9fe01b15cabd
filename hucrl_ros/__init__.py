"""H-UCRL as a real-time ROS 2 controller: a robot learns a task in tens of episodes."""

__version__ = "0.1.0"
