"""Episodes as rosbag2 folders (MCAP), written and read without ROS."""
