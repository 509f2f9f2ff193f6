"""The settings that gradwire.torch itself reads, and its defaults."""

import pytest

import gradwire
from gradwire.torch.comm_settings import min_bytes, start_limit, with_defaults


def test_defaults_are_the_settings_unless_these_are_given():
    for settings in (None, "", "plan_log=/nonfinite", {"plan_log": "/nonfinite"}):
        assert "nonfinite=skip" in with_defaults(settings, nonfinite="skip")
        assert "nonfinite" not in with_defaults(settings, nonfinite=None).replace("/nonfinite", "")
    for settings in ("nonfinite=mine", "debug=error\nnonfinite = mine", {"nonfinite": "mine"}):
        with pytest.raises(gradwire.InvalidArgument, match="'mine'"):
            gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1,
                                         with_defaults(settings, nonfinite="skip"))


def test_defaults_give_way_to_the_environment_and_the_file(tmp_path, monkeypatch):
    def text(settings=""):
        return with_defaults(settings, nonfinite="skip", op_timeout_ms=5)

    monkeypatch.chdir(tmp_path)
    assert text() == "nonfinite=skip; op_timeout_ms=5; "
    monkeypatch.setenv("GRADWIRE_OP_TIMEOUT_MS", "7")
    assert text() == "nonfinite=skip; "
    monkeypatch.delenv("GRADWIRE_OP_TIMEOUT_MS")
    (tmp_path / "other.toml").write_text("# nonfinite = 'skip'\nnonfinite = 'error'\n")
    assert text({"config": "other.toml"}) == "op_timeout_ms=5; config=other.toml"
    monkeypatch.setenv("GRADWIRE_CONFIG", "other.toml")
    assert text() == "op_timeout_ms=5; "
    monkeypatch.delenv("GRADWIRE_CONFIG")
    (tmp_path / "gradwire.toml").write_text("op_timeout_ms = 7\n# nonfinite = 'error'\n")
    assert text() == "nonfinite=skip; "


@pytest.mark.parametrize("text, seconds", [("", 60), ("init_timeout_ms = 1500; debug=info", 1.5),
                                           ({"init_timeout_ms": "2m"}, 120)])
def test_the_limit_is_the_setting(monkeypatch, text, seconds):
    monkeypatch.delenv("GRADWIRE_INIT_TIMEOUT_MS", raising=False)
    assert start_limit(text).total_seconds() == seconds
    monkeypatch.setenv("GRADWIRE_INIT_TIMEOUT_MS", "7s")
    assert start_limit().total_seconds() == 7
    assert start_limit("plan_log=/init_timeout_ms=1/plan").total_seconds() == 7


@pytest.mark.parametrize("value, seconds", [("2S", 2), ("3 s", 3), ("20000000us", 20), (4000, 4),
                                            ("1s; init_timeout_ms=5s", 5)])
def test_the_limit_is_what_the_library_takes_it_for(value, seconds):
    settings = f"init_timeout_ms={value}"
    assert start_limit(settings).total_seconds() == seconds
    gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1, settings).close()


@pytest.mark.parametrize("value", ["5 min", "1.5s", "-1", "", "1e3", "s"])
def test_a_limit_that_the_library_refuses_is_no_limit(value, monkeypatch):
    """It is refused when all ranks are here."""
    settings = {"init_timeout_ms": value}
    monkeypatch.delenv("GRADWIRE_INIT_TIMEOUT_MS", raising=False)
    assert start_limit(settings).total_seconds() == 60
    with pytest.raises(gradwire.InvalidArgument, match="init_timeout_ms"):
        gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1, settings)
    monkeypatch.setenv("GRADWIRE_INIT_TIMEOUT_MS", value)
    assert start_limit().total_seconds() == 60


def test_what_are_no_settings_is_refused_later():
    assert start_limit(["init_timeout_ms=1s"]).total_seconds() == 60


@pytest.mark.parametrize("text, number", [("", 1 << 20), ("65536", 65536), ("64k", 1 << 16),
                                          (" 2G ", 2 << 30)])
def test_bytes_have_units(monkeypatch, text, number):
    monkeypatch.setenv("GRADWIRE_MIN_BYTES", text)
    assert min_bytes() == number


@pytest.mark.parametrize("text", ["1MB", "-1", "1.5M", "many"])
def test_what_is_no_number_of_bytes_is_refused(monkeypatch, text):
    monkeypatch.setenv("GRADWIRE_MIN_BYTES", text)
    with pytest.raises(ValueError, match=f"takes a number of bytes, as 65536 or 1M, not '{text}'"):
        min_bytes()
