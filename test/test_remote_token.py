"""The secret of a learner on another machine: made once, its owner's alone."""

import stat

import pytest

from hucrl_ros.errors import ConfigError
from hucrl_ros.run.remote.token import made_token, read_token


def test_a_token_is_made_once_and_is_its_owners_alone(tmp_path):
    token = made_token(tmp_path / ".token")
    assert len(token) == 32
    assert stat.S_IMODE((tmp_path / ".token").stat().st_mode) == 0o600
    assert made_token(tmp_path / ".token") == token == read_token(tmp_path / ".token")
    assert made_token(tmp_path / "other") != token


def test_a_token_has_its_name_once_it_is_whole(tmp_path, monkeypatch):
    def killed(length):
        raise KeyboardInterrupt

    monkeypatch.setattr("hucrl_ros.run.remote.token.secrets.token_urlsafe", killed)
    with pytest.raises(KeyboardInterrupt):
        made_token(tmp_path / ".token")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_token_that_others_can_read_is_refused(tmp_path, mode):
    made_token(tmp_path / ".token")
    (tmp_path / ".token").chmod(mode)
    for read in (made_token, read_token):
        with pytest.raises(ConfigError, match="others can read this token"):
            read(tmp_path / ".token")


@pytest.mark.parametrize(
    "text", ["", "short", "two words that are long enough", "x" * 201, "\0" * 30]
)
def test_what_is_no_token_is_refused_without_being_shown(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no token") as caught:
        read_token(path)
    assert not text or text not in str(caught.value)
