"""How a plan is computed: machine code made by numba, or ONNX Runtime."""
