import pytest

from hucrl_ros.controller.timing import LOCKSTEP_PATIENCE
from hucrl_ros.controller.watch import FIRST_PATIENCE, Watch, patience

LIMIT = 0.03


@pytest.fixture
def watch():
    watch = Watch(LIMIT)
    watch.arm()
    watch.command()
    return watch


def test_the_watch_trips_half_a_period_before_the_limit():
    assert patience(3.0, 0.01, lockstep=False) == pytest.approx(0.025)


def test_a_tick_may_always_last_one_period():
    assert patience(1.0, 0.01, lockstep=False) == pytest.approx(0.01)


def test_in_lockstep_a_slow_tick_is_no_reason():
    assert patience(3.0, 0.01, lockstep=True) == LOCKSTEP_PATIENCE
    assert patience(10.0, 1.0, lockstep=True) == pytest.approx(9.5)


def test_an_unanswered_joint_state_trips_once(watch):
    watch.joint_state(1, 10.0)
    assert watch.check(10.029) == ""
    assert watch.check(10.031) == "no command 31.0 ms after a joint state (limit 30.0 ms)"
    assert watch.tripped
    assert watch.check(10.04) == ""


def test_time_in_which_the_watch_was_held_up_does_not_count(watch):
    watch.excuse(5.0, 9.0)
    watch.joint_state(1, 10.0)
    watch.excuse(5.0, 15.01)
    assert watch.check(15.029) == ""
    watch.excuse(5.0, 15.02)
    assert watch.waited(15.03) == pytest.approx(0.01), "never since a later time than now"
    assert watch.check(15.051)


def test_the_first_unanswered_joint_state_counts(watch):
    watch.joint_state(1, 10.0)
    watch.joint_state(2, 10.02)
    assert watch.check(10.031)


def test_an_answered_joint_state_does_not_trip(watch):
    watch.joint_state(1, 10.0)
    assert not watch.command()
    assert watch.check(20.0) == ""
    watch.joint_state(2, 20.0)
    assert watch.check(20.02) == ""


def test_a_repetition_of_an_answered_joint_state_does_not_trip(watch):
    watch.joint_state(1, 10.0)
    watch.command()
    assert not watch.joint_state(1, 10.01)
    assert watch.check(20.0) == ""


def test_nothing_trips_outside_an_episode():
    watch = Watch(LIMIT)
    watch.joint_state(1, 0.0)
    watch.ended()
    assert watch.check(10.0) == ""
    watch.arm()
    watch.joint_state(1, 10.0)
    watch.disarm()
    assert watch.check(20.0) == ""


def test_a_joint_state_from_before_the_episode_needs_an_answer_when_it_is_repeated():
    watch = Watch(LIMIT)
    watch.joint_state(1, 0.0)
    watch.arm()
    assert watch.joint_state(1, 10.0)
    assert watch.check(10.0 + FIRST_PATIENCE)


def test_an_episode_begins_without_haste():
    watch = Watch(LIMIT)
    watch.arm()
    watch.joint_state(1, 10.0)
    assert watch.check(10.0 + 0.9 * FIRST_PATIENCE) == ""
    watch.command()
    watch.joint_state(2, 20.0)
    assert watch.check(20.031)


def test_an_ended_controller_trips_at_once(watch):
    watch.joint_state(1, 10.0)
    watch.ended()
    assert watch.check(10.004) == (
        "the controller's process has ended, 4.0 ms after a joint state that waits for a command"
    )


def test_an_ended_controller_trips_even_if_all_is_answered(watch):
    watch.joint_state(1, 10.0)
    watch.command()
    watch.ended()
    assert watch.check(10.004) == "the controller's process has ended"


def test_a_late_command_clears_a_trip(watch):
    watch.joint_state(1, 10.0)
    assert watch.check(10.031)
    assert watch.command()
    assert not watch.tripped
    watch.joint_state(2, 10.04)
    assert watch.check(10.05) == ""
    assert watch.check(10.08)


def test_a_command_that_arrives_after_the_end_of_its_process_clears_nothing(watch):
    watch.ended()
    assert watch.check(10.0)
    assert not watch.command()
    assert watch.tripped


def test_a_new_episode_clears_everything(watch):
    watch.ended()
    assert watch.check(10.0)
    watch.arm()
    assert not watch.tripped
    assert watch.check(20.0) == ""


def test_a_stopped_controller_trips_at_once_and_may_go_on(watch):
    assert watch.check(10.0, stopped=True) == (
        "no command can come: the controller's process is stopped"
    )
    assert watch.check(10.0, stopped=True) == ""
    assert watch.command()
    assert not watch.tripped


def test_a_stopped_controller_is_none_of_its_business_between_episodes(watch):
    watch.disarm()
    assert watch.check(10.0, stopped=True) == ""
