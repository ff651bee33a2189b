"""Recorded answers stay as they stand in their files while they are right."""

from tests.differential import Recording

NUMBER = 0.04599621
"""It is recorded as .0459962, which by itself could be recorded as .045996."""


def described(value: float) -> dict:
    return {"result": {"tensor": "float32[1]", "values": [value]}}


def test_recording_another_program_rounds_no_recorded_number_again(tmp_path):
    file = str(tmp_path / "test_file.py")
    path = tmp_path / "recorded" / "test_file.json"
    Recording(file)._write("first", described(NUMBER))
    again = Recording(file)
    again._write("second", described(1.0))
    again._write("first", described(NUMBER + 1e-8))
    assert path.read_text() == '{\n"first": "float32[1] .0459962",\n"second": "float32[1] 1"\n}\n'
    again._write("first", described(2.0))
    assert '"first": "float32[1] 2"' in path.read_text()
