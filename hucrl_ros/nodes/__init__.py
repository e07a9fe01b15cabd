"""The ROS 2 nodes: thin, over `controller`, `learning` and `run`."""
