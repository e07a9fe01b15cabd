"""The nodes that only `hucrl bench` starts, beside the controller and the simulator."""
