"""What of the page talks to ROS."""
