"""What `hucrl bench` measures: the planning tick, the control loop, planners against each other."""
