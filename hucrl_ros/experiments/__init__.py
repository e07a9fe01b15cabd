"""Experiments without ROS: training in one process, sweeps over seeds, figures, the optimum."""
