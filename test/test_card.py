"""A bundle's card: what it says is what manifest, run and played episodes say."""

import html.parser
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from bundle_factory import write_bundle
from fabricated_run import fabricate_run
from test_inspect import CRASHES

from hucrl_ros.cli import main
from hucrl_ros.config.schema import PlannerSettings, SafetySettings
from hucrl_ros.controller import examiner
from hucrl_ros.controller.bundle import bundle_digest
from hucrl_ros.controller.manifest import SIGNATURE, LearningReport
from hucrl_ros.controller.signature import new_key, sign, signer_of
from hucrl_ros.errors import BundleError
from hucrl_ros.experiments import card_pages
from hucrl_ros.experiments.card import card_of
from hucrl_ros.experiments.card_sections import Section
from hucrl_ros.experiments.evaluation import evaluate, open_bundle
from hucrl_ros.run.summary import read_summary, write_summary

SEED = 5
EVENT = "controller: ended | by <signal> 9"
REPORT = LearningReport(
    model_error=0.125, coverage=0.955, calibration_error=0.0213, refused=3, predicted_return=250.0
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """That of episode 2 of a run, with the policy as its planner; episode 1 went badly."""
    run = fabricate_run(tmp_path_factory.mktemp("card") / "run", (0.0, 0.0), episodes=9)
    shutil.rmtree(run.bundle(2))
    write_bundle(
        run.bundle(2),
        episode=2,
        data_hash="ab" * 32,
        report=REPORT,
        revision="<script>alert(1)</script>",
        planner=PlannerSettings(algorithm="policy"),
        safety=SafetySettings(effort_rate=0.25),
    )
    summary = read_summary(run.summary)
    episodes = [*summary.episodes]
    episodes[1] = episodes[1].model_copy(update={"return_": -50.0, "misses": 7})
    changes = {"episodes": tuple(episodes), "events": (EVENT,)}
    write_summary(run.summary, summary.model_copy(update=changes))
    return run.bundle(2)


@pytest.fixture(scope="module")
def card(bundle):
    return card_of(bundle, starts=0, seed=SEED)


def test_a_bundle_is_first_tried_in_a_process_with_limits(bundle, monkeypatch):
    monkeypatch.setattr(examiner, "PROGRAM", ("-c", CRASHES))
    with pytest.raises(BundleError, match="ended the process that examined it, by SIGSEGV"):
        card_of(bundle, starts=0, seed=SEED)


def rows(card, title):
    (section,) = (section for section in card.sections if section.title == title)
    return section.rows


def pairs(card, title):
    return dict(rows(card, title))


def test_it_says_what_the_manifest_and_the_run_say(bundle, card):
    assert card.title == "pendulum: bundle_002"
    assert pairs(card, "Task and robot")["Plays"] == "episode 2 by policy"
    assert pairs(card, "Data that it learned from")["Episodes"] == "2 of its run"
    recorded = pairs(card, "Data that it learned from")["Recorded"]
    assert recorded == "800 transitions, 10.0 s of movement"
    model = pairs(card, "Model and calibration")
    assert model["Held-out changes within two predicted deviations"] == "95.5%"
    assert model["Return that it predicts for itself"] == "250.0"
    assert [tile.value for tile in card.tiles[:3]] == ["10 s", "0.125", "95.5%"]
    assert pairs(card, "Origin")["SHA-256 of manifest.yaml"] == bundle_digest(bundle)
    assert pairs(card, "Limits")["pendulum_joint"] == "±1 N m"
    assert pairs(card, "Limits")["safety.effort_rate"] == "0.25"


def test_a_small_error_of_the_model_is_not_told_as_none(tmp_path):
    report = LearningReport(model_error=2.4186e-5)
    card = card_of(write_bundle(tmp_path / "bundle_001", report=report), 0, SEED)
    assert "2.42e-05" in [tile.value for tile in card.tiles]


def test_the_learning_curve_ends_with_the_episode_that_the_bundle_plays(bundle, card):
    told = read_summary(bundle.parents[1] / "summary.json").episodes
    curve = rows(card, "Learning curve")
    assert [row[1] for row in curve] == [f"{e.return_:.1f}" for e in told]
    assert [row[0] for row in curve] == ["0", "1", "2 (this bundle)"]


def test_an_episode_counts_as_that_of_the_bundle_that_flew(tmp_path):
    """Episode 1 was flown by the bundle of 0, and the bundle of 1 flew in episode 2."""
    run = fabricate_run(tmp_path / "run", (0.0, 0.0))
    shutil.rmtree(run.bundle(1))
    write_bundle(run.bundle(1), episode=1)
    summary = read_summary(run.summary)
    flown = [
        episode.model_copy(update={"bundle": f"bundles/bundle_00{bundle}"})
        for episode, bundle in zip(summary.episodes, (0, 0, 1), strict=True)
    ]
    write_summary(run.summary, summary.model_copy(update={"episodes": tuple(flown)}))
    curve = rows(card_of(run.bundle(1), starts=0, seed=SEED), "Learning curve")
    assert [row[0] for row in curve] == ["0", "1", "2 (this bundle)"]


def test_of_an_episode_that_ended_early_only_its_own_steps_are_movement(tmp_path):
    run = fabricate_run(tmp_path / "run", (0.0,))
    shutil.rmtree(run.bundle(1))
    write_bundle(run.bundle(1), episode=1, data_hash="ab" * 32)
    summary = read_summary(run.summary)
    first, *others = summary.episodes
    episodes = (first.model_copy(update={"steps": 80, "cut": True}), *others)
    write_summary(run.summary, summary.model_copy(update={"episodes": episodes}))
    card = card_of(run.bundle(1), starts=0, seed=SEED)
    assert card.tiles[0] == ("1 s", "of movement")
    recorded = pairs(card, "Data that it learned from")["Recorded"]
    assert recorded == "80 transitions, 1.0 s of movement"


def test_a_bundle_that_flies_again_has_learned_from_no_episode_since_it_was_made(tmp_path):
    run = fabricate_run(tmp_path / "run", (0.0, 0.0, 0.0))
    shutil.rmtree(run.bundle(3))
    write_bundle(run.bundle(3), episode=3, repeats=1, data_hash="ab" * 32)
    card = card_of(run.bundle(3), starts=0, seed=SEED)
    learned = pairs(card, "Data that it learned from")
    assert learned["Episodes"] == "1 of its run"
    assert learned["Recorded"] == "400 transitions, 5.0 s of movement"
    assert learned["SHA-256 of all 3 when it flies again"] == "ab" * 32
    assert card.tiles[0] == ("5 s", "of movement")
    assert len(rows(card, "Learning curve")) == 4


def test_what_went_wrong_is_said(card):
    failures = rows(card, "Known failures")
    assert ("event", EVENT) in failures
    assert ("episode 1", "7 ticks later than the period") in failures
    assert any(who == "episode 1" and "went badly: return -50.0" in what for who, what in failures)
    assert failures[0][1].startswith("3 gradient steps")
    assert not any(who in ("episode 0", "episode 2") for who, _ in failures)


def test_settings_are_those_that_differ_from_the_defaults(bundle, card, tmp_path):
    assert rows(card, "Settings") == (("episodes", "9", "6"),)
    alone = shutil.copytree(bundle, tmp_path / "alone")
    told = card_of(alone, starts=0, seed=SEED)
    names = {row[0] for row in rows(told, "Settings")}
    assert {"planner.algorithm", "safety.effort_rate"} == names
    assert told.summary is None


def test_fresh_starts_are_those_of_evaluate(bundle):
    opened, task = open_bundle(bundle)
    (played,) = evaluate(opened, task, 1, SEED)
    told = card_of(bundle, starts=1, seed=SEED)
    starts = pairs(told, "Fresh starts in simulation")
    assert starts["Return"].startswith(f"mean {played.total:.1f}, least {played.total:.1f}")
    assert told.tiles[0].value == f"{played.total:.1f} / 278.5"
    assert np.isfinite(played.total)


def test_a_signature_is_told_and_one_of_something_else_is_refused(bundle, tmp_path):
    signed = shutil.copytree(bundle, tmp_path / "signed")
    assert signer_of(signed) is None
    public = new_key(tmp_path / "key")
    sign(signed, tmp_path / "key")
    assert pairs(card_of(signed, 0, SEED), "Origin")["Signed by"] == public
    manifest = signed / "manifest.yaml"
    before = manifest.read_bytes()
    manifest.write_text(manifest.read_text() + "\n# changed\n")
    with pytest.raises(BundleError, match="not of this manifest"):
        signer_of(signed)
    manifest.write_bytes(before)
    told = json.loads((signed / SIGNATURE).read_text())
    told["key"] += " the maker of robots"
    (signed / SIGNATURE).write_text(json.dumps(told))
    assert signer_of(signed) == public
    (signed / SIGNATURE).write_text(json.dumps({"key": "ssh-rsa AAAA", "signature": "AAAA"}))
    with pytest.raises(BundleError, match="no Ed25519 key"):
        signer_of(signed)


class Elements(html.parser.HTMLParser):
    """Tags, what they refer to, and text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.references, self.text = [], set(), [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in ("meta", "use", "path"):
            self.open.append(tag)
        self.references += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.references += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        if tag not in ("meta", "use", "path"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_asks_nobody_for_anything(card):
    page = card_pages.html(card)
    elements = Elements(page)
    assert elements.open == []
    assert {"svg", "table", "style"} <= elements.tags
    assert not elements.tags & {"script", "link", "img", "iframe"}
    assert all(reference.startswith("#") for reference in elements.references)
    assert "url(http" not in page and "@import" not in page.split("</style>")[0]
    text = "".join(elements.text)
    assert "<script>alert(1)</script>" in text
    assert EVENT in text


def test_markdown_shows_what_a_bundle_says_and_never_takes_it_for_markup(card):
    text = card_pages.markdown(card)
    assert "| event | controller: ended \\| by \\<signal\\> 9 |" in text
    assert "\\<script\\>" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) > 30
    for section in card.sections:
        assert f"## {section.title}" in text


@pytest.mark.parametrize("begin", ["", "ssh-ed25519 "])
def test_what_a_run_noted_stays_one_printable_line_of_the_card(card, begin):
    evil = f"{begin}fell\n## Signed by you\x1b[2J"
    told = replace(card, about=evil, sections=(Section("Known failures", evil, (), ((evil,),)),))
    text = card_pages.markdown(told)
    assert "\n## Signed" not in text
    assert text.replace("\n", "").isprintable()


def test_the_command_prints_or_writes_and_overwrites_nothing(bundle, tmp_path, capsys):
    assert main(["card", str(bundle), "--starts", "0"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# pendulum: bundle\\_002\n")
    page, text = tmp_path / "card.html", tmp_path / "card.md"
    command = ["card", str(bundle), "--starts", "0", "--html", str(page), "--out", str(text)]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [str(page), str(text)]
    assert text.read_text() == printed
    assert page.read_text().startswith("<!doctype html>")
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["card", str(tmp_path), "--starts", "0"]) == 1
    assert "not a bundle" in capsys.readouterr().err
