"""Plays bundles on a robot: numpy and ONNX Runtime, neither torch nor ROS."""
