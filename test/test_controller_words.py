"""What the watchdog hears of the controller's process, whatever one word leads to."""

from types import SimpleNamespace

import pytest
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from hucrl_ros.nodes.controller_words import ControllerWords


def test_a_word_that_fails_costs_neither_the_others_nor_the_end():
    taken = []

    def take(message):
        taken.append(message.data)
        if message.data == "wrong":
            raise ValueError(message.data)

    node = SimpleNamespace(
        create_subscription=lambda *_: None,
        context=SimpleNamespace(get_domain_id=lambda: 0),
        resolve_topic_name=lambda topic: topic,
    )
    words = ControllerWords(
        node, [(String, "told", take, QoSProfile(depth=1))], lambda _: None, lambda _: None, print
    )
    told = [("told", serialize_message(String(data=each))) for each in ("wrong", "last")]
    words._process = SimpleNamespace(connected=True, ended=lambda: True, heard=lambda: told)
    with pytest.raises(ValueError, match="wrong"):
        words.listen()
    assert words.ended
    told = []
    words.listen()
    assert taken == ["wrong", "last"]
