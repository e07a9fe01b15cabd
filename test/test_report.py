import contextlib
import dataclasses
import logging
import math
import weakref

import mujoco
import numpy as np
import pytest
from fabricated_run import fabricate_run, swing_up
from PIL import Image

from hucrl_ros.controller.bundle import IMAGINED
from hucrl_ros.experiments import video
from hucrl_ros.experiments.evaluation import PlayedEpisode
from hucrl_ros.experiments.phase import VIEWS, phase_points, select_episodes, unbroken
from hucrl_ros.experiments.report import choose_clips, learning_curve, make_report
from hucrl_ros.experiments.video import Clip, load_clips, render_videos, save_clips
from hucrl_ros.robots import make_robot
from hucrl_ros.robots.poses import way_of
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import Summary, read_summary, write_summary

VIEW = VIEWS["pendulum"]


def episode(index, total):
    return PlayedEpisode(
        index=index,
        states=np.zeros((2, 2)),
        actions=np.zeros((1, 1)),
        rewards=np.array([total]),
        random=index == 0,
        imagined=None,
        tick_ms=np.zeros(0),
        missed=np.zeros(0, dtype=bool),
    )


def drawn(path):
    """Whether a picture is large and has something in it."""
    with Image.open(path) as image:
        return image.width > 800 and len(image.convert("RGB").getcolors(1 << 24)) > 50


def test_phase_points_are_the_angles_up_to_whole_turns_and_stay_in_view():
    angles = np.linspace(math.pi, -40.0, 500)
    states = np.stack([angles, np.full(500, -1.0)], axis=-1)
    points = phase_points(states, 1, VIEW)
    assert points[:, 0].min() >= VIEW.lower
    assert points[:, 0].max() <= VIEW.upper
    turns = (points[:, 0] - angles) / (2 * math.pi)
    np.testing.assert_allclose(turns, turns.round(), atol=1e-9)
    assert np.count_nonzero(~unbroken(points)) == 7


def test_balancing_around_upright_is_one_unbroken_line():
    angles = math.pi - np.linspace(0, math.pi, 50)
    angles = np.concatenate([angles, 0.3 * np.sin(np.arange(100.0))])
    points = phase_points(np.stack([angles, angles], axis=-1), 1, VIEW)
    assert unbroken(points).all()


def test_many_episodes_are_thinned_but_keep_first_best_and_last():
    episodes = [episode(k, 100.0 if k == 17 else float(k)) for k in range(40)]
    shown = [shown.index for shown in select_episodes(episodes, 12)]
    assert len(shown) == 12
    assert shown == sorted(set(shown))
    assert {0, 17, 39} <= set(shown)
    assert select_episodes(episodes[:5], 12) == episodes[:5]


def test_clips_are_of_the_first_and_the_best_episode():
    clips = choose_clips([episode(0, -5.0), episode(1, 20.0), episode(2, 10.0)])
    assert [clip.name for clip in clips] == ["episode_000", "episode_001"]
    assert [clip.title for clip in clips] == ["episode 0 (random)", "episode 1 (best)"]


def test_report_draws_every_figure_of_a_run(tmp_path):
    run = fabricate_run(tmp_path / "run")
    files = make_report(run, videos=False)
    assert files == [run.figures / f"{name}.png" for name in ("learning_curve", "phase", "ticks")]
    assert all(drawn(path) for path in files)


def test_unreadable_bag_and_imagined_episode_are_left_out_with_one_line_each(tmp_path, caplog):
    run = fabricate_run(tmp_path / "run", noises=(0.1, 0.2), steps=20)
    (run.bag(1) / "episode_001.mcap").write_bytes(b"no bag")
    (run.bundle(2) / IMAGINED).write_bytes(b"no arrays")
    files = make_report(run, videos=False)
    assert len(files) == 3
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "episode_001" in messages[0]
    assert IMAGINED in messages[1]


def test_run_without_bags_has_only_its_learning_curve(tmp_path, caplog):
    run = fabricate_run(tmp_path / "run", noises=(0.1,), steps=20)
    summary = read_summary(run.summary)
    episodes = [episode.model_copy(update={"bag": None}) for episode in summary.episodes]
    write_summary(run.summary, summary.model_copy(update={"episodes": tuple(episodes)}))
    assert make_report(run) == [run.figures / "learning_curve.png"]
    assert not caplog.records


def test_run_without_an_episode_draws_nothing_and_says_so(tmp_path, caplog, run_folder):
    summary = Summary.of(run_folder.config, optimum=None, episodes=[], wall_s=0.0, cpu_s=0.0)
    write_summary(run_folder.summary, summary)
    assert make_report(RunFolder(run_folder.root)) == []
    assert "nothing to draw" in caplog.text


def test_clips_survive_their_file(tmp_path):
    clips = [Clip("a", "ä (1)", np.eye(2), np.ones((1, 1)), np.ones(1)),
             Clip("b", "two", np.zeros((3, 2)), np.zeros((2, 1)), np.zeros(2))]  # fmt: skip
    save_clips(tmp_path / "clips.npz", clips)
    for clip, loaded in zip(clips, load_clips(tmp_path / "clips.npz"), strict=True):
        assert (loaded.name, loaded.title) == (clip.name, clip.title)
        np.testing.assert_array_equal(loaded.states, clip.states)
        np.testing.assert_array_equal(loaded.actions, clip.actions)
        np.testing.assert_array_equal(loaded.rewards, clip.rewards)


def test_effort_bar_reaches_from_the_middle_to_its_share():
    blank = np.full((video.SIZE, video.SIZE, 3), 255, np.uint8)
    row = video.SIZE + video.FOOTER // 2
    blue, red = (0, 114, 178), (213, 94, 0)

    def length(share, colour):
        frame = video.decorate(blank, "title", -1.0, 0.5, np.array([share]))
        return int((frame[row] == colour).all(axis=-1).sum())

    assert length(0.0, red) == 0
    assert length(1.0, blue) == pytest.approx(2 * length(0.5, blue), abs=3)
    assert length(-1.0, red) == pytest.approx(length(1.0, blue), abs=3)
    assert length(-5.0, red) == length(-1.0, red)
    assert length(1.0, red) == 0


def test_a_picture_says_what_its_bars_are():
    blank = np.full((video.SIZE, video.SIZE, 3), 255, np.uint8)
    effort, velocity = (
        video.decorate(blank, "title", 0.0, 0.0, np.zeros(1), command)
        for command in ("effort", "velocity")
    )
    assert (effort != velocity).any()
    np.testing.assert_array_equal(effort[: video.SIZE], velocity[: video.SIZE])


def test_a_model_without_lights_is_lit(monkeypatch):
    monkeypatch.setattr(video.mujoco, "Renderer", lambda model, *size: size)
    body = "<worldbody>{}<geom size='1'/></worldbody>"
    dark, lit = (
        mujoco.MjModel.from_xml_string(f"<mujoco>{body.format(light)}</mujoco>")
        for light in ("", "<light/>")
    )
    before = lit.vis.headlight.diffuse.copy()
    assert video.renderer_of(dark, 48) == video.renderer_of(lit, 48) == (48, 48)
    assert (dark.vis.headlight.diffuse > before).all()
    np.testing.assert_array_equal(lit.vis.headlight.diffuse, before)


def test_without_a_renderer_there_are_no_videos_and_one_line(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MUJOCO_GL", "no-such-library")
    states, actions = np.zeros((3, 2)), np.zeros((2, 1))
    clip = Clip("episode_000", "first", states, actions, np.zeros(2))
    assert render_videos(tmp_path / "videos", "pendulum", [clip]) == []
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING
    assert "no-such-library" in caplog.text


def test_videos_replay_the_recorded_states(tmp_path):
    states, actions = swing_up(0.0, np.random.default_rng(0))
    clips = [
        Clip(f"episode_{k:03d}", "swing", states[:n], actions[: n - 1], np.ones(n - 1))
        for k, n in enumerate((17, 41))
    ]
    files = render_videos(tmp_path, "pendulum", clips)
    if not files:
        pytest.skip("MuJoCo can't render on this machine")
    assert [path.name for path in files] == [
        "episode_000.mp4",
        "episode_001.mp4",
        f"{video.TOGETHER}.gif",
    ]
    with video.imageio.v2.get_reader(files[1]) as reader:
        frames = [reader.get_data(k) for k in range(reader.count_frames())]
    # Every 4th of 41 states: 20 pictures a second.
    assert len(frames) == 11
    assert np.abs(frames[0].astype(float) - frames[-1]).mean() > 0.5
    with Image.open(files[2]) as animation:
        assert animation.n_frames == 11
        assert animation.width > 1.5 * animation.height
    assert files[2].stat().st_size < 3e6


def test_a_robot_of_which_the_state_has_the_speed_alone_moves_on_in_its_film():
    robot, rng = make_robot("half_cheetah"), np.random.default_rng(0)
    states = [robot.reset(rng)]
    address = int(robot.model.joint("rootx").qposadr[0])
    places = [robot.data.qpos[address]]
    for _ in range(60):
        states.append(robot.step(np.array([1.0, -0.5, 0.5, 0.2, 1.0, -0.3])))
        places.append(robot.data.qpos[address])
    assert np.ptp(places) > 0.1
    (found,) = way_of(robot, np.array(states)).items()
    assert found[0] == address
    np.testing.assert_allclose(found[1], places, atol=0.15 * np.ptp(places))
    assert way_of(make_robot("pendulum"), np.zeros((3, 2))) == {}


def test_an_episode_that_a_surprise_ended_is_not_the_best():
    episodes = [episode(0, -60.0), episode(1, -35.0), episode(2, -0.4), episode(3, -50.0)]
    cut = [*episodes[:2], dataclasses.replace(episodes[2], cut=True), episodes[3]]
    assert [clip.title for clip in choose_clips(cut)] == [
        "episode 0 (random)",
        "episode 1 (best)",
    ]


def test_the_return_of_an_episode_that_a_surprise_ended_is_no_point_of_the_curve(tmp_path):
    summary = read_summary(fabricate_run(tmp_path / "run", (0.4, 0.0), steps=20).summary)
    episodes = list(summary.episodes)
    path, mark = tmp_path / "curve.svg", "until a surprise ended it"
    assert mark not in learning_curve(path, summary, 1).read_text()
    episodes[1] = episodes[1].model_copy(update={"cut": True})
    drawn = learning_curve(path, summary.model_copy(update={"episodes": tuple(episodes)}), 1)
    assert mark in drawn.read_text()
    episodes = [episode.model_copy(update={"cut": True}) for episode in episodes]
    drawn = learning_curve(path, summary.model_copy(update={"episodes": tuple(episodes)}), 1)
    assert "no whole episode" in drawn.read_text()


def test_a_long_film_is_not_kept_in_memory(tmp_path, monkeypatch):
    alive, most = weakref.WeakSet(), []

    class Picture:
        pass

    def draw(*given):
        for _ in range(1000):
            alive.add(picture := Picture())
            yield picture
            most.append(len(alive))

    monkeypatch.setattr(video, "draw_clip", draw)
    monkeypatch.setattr(video, "renderer_of", lambda model: contextlib.nullcontext())
    monkeypatch.setattr(video, "write_video", lambda path, film, rate: [None for _ in film])
    monkeypatch.setattr(video, "write_gif", lambda path, film, rate: None)
    monkeypatch.setattr(video, "side_by_side", lambda films: None)
    save_clips(tmp_path / "clips.npz", [Clip("one", "", *3 * [np.zeros((1, 1))])])
    video.main(tmp_path / "clips.npz", tmp_path, "both", "pendulum")
    assert len(most) == 1000
    assert max(most) <= video.GIF_S * video.RATE + 3


def test_what_was_learned_is_filmed_also_where_the_first_episode_is_the_best():
    episodes = [episode(0, 10.0), episode(1, 3.0), episode(2, 5.0)]
    titles = [clip.title for clip in choose_clips(episodes)]
    assert titles == ["episode 0 (best)", "episode 2"]
    assert len(choose_clips(episodes[:1])) == 1


def test_a_picture_of_a_robot_with_many_motors():
    picture = np.zeros((video.SIZE, video.SIZE, 3), np.uint8)
    assert video.decorate(picture, "humanoid", 0.0, 0.0, np.full(29, 0.5), "effort").any()
