"""A node's parameters as a person's tools ask for them, over DDS."""

from bench import ANSWER_S
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.parameter import Parameter


class Desk:
    """Asks a node for its parameters, and sets them."""

    def __init__(self, bench, node):
        self._bench, self._node = bench, node

    def names(self):
        answer = self._ask(ListParameters, ListParameters.Request())
        return set(answer.result.names)

    def describe(self, name):
        request = DescribeParameters.Request(names=[name])
        return self._ask(DescribeParameters, request).descriptors[0]

    def value(self, name):
        answer = self._ask(GetParameters, GetParameters.Request(names=[name]))
        (value,) = answer.values
        return Parameter.from_parameter_msg(ParameterMessage(name=name, value=value)).value

    def set(self, name, value):
        """Why it is refused; empty where it isn't."""
        message = Parameter(name, value=value).to_parameter_msg()
        answer = self._ask(SetParameters, SetParameters.Request(parameters=[message]))
        (result,) = answer.results
        assert result.successful == (not result.reason)
        return result.reason

    def _ask(self, kind, request):
        name = f"{self._node}/{kind.__name__.replace('P', '_p').lower()}"
        while True:  # a node that has just started may lose its answer
            future = self._bench.call_async(kind, name, request)
            if self._bench.wait(future.done, ANSWER_S):
                return future.result()
