"""The ROS 2 nodes: thin, over `runtime`, `learner` and `bags`."""
