"""tools/setup.sh, with stubs for the programs that it calls: what it installs, says, and never does twice."""

import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "tools" / "setup.sh"
#: Of the real machine: nothing but a shell, coreutils, diffutils, findutils and sed.
TOOLS = (
    "bash",
    "env",
    "dirname",
    "cmp",
    "find",
    "cksum",
    "sort",
    "mktemp",
    "tail",
    "sed",
    "uname",
    "ls",
    "rm",
    "mkdir",
)
TOOLS = (*TOOLS, "cp", "mv", "cat", "touch")

#: Writes down how it was called; makes a virtual environment whose Python is a copy of itself.
PYTHON = """#!/usr/bin/env bash
case "$*" in
    *version_info*'(3, 11)'*) exit {too_old} ;;
    *ensurepip*) [ -z "$NO_ENSUREPIP" ] || [ -e "$TMPDIR/python3.11-venv" ]; exit ;;
    *%d.%d-venv*) echo python3.11-venv ;;
    -V) echo "Python {version}" ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip"*) echo "$*" >>"$LOG" ;;
esac
"""


class Place:
    """A small course and a PATH that holds coreutils and the stubs that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.course, self.bin, self.log = folder / "course", folder / "bin", folder / "log"
        (self.course / "tools").mkdir(parents=True)
        (self.course / "warpgrade").mkdir()
        self.bin.mkdir()
        shutil.copy(SETUP, self.course / "tools")
        for name in ("requirements.txt", "pyproject.toml", "README.md", "LICENSE", "warpgrade/a.py", "warpgrade/b.py"):
            (self.course / name).write_text(name)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or tool)
        self.stub("python3.11", PYTHON.format(too_old=0, version="3.11.7"))
        self.stub("bwrap")
        self.stub("g++")
        self.stub("id", "#!/bin/sh\necho 1000\n")
        self.stub("sudo", "#!/bin/sh\nexit 1\n")

    def stub(self, name: str, text: str = "#!/bin/sh\nexit 0\n") -> None:
        """Put a program on the PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, **environment: str) -> tuple[int, str]:
        """Run setup; its exit status and all that it said."""
        done = subprocess.run(
            ["bash", "tools/setup.sh"],
            cwd=self.course,
            env={"PATH": str(self.bin), "LOG": str(self.log), "TMPDIR": str(self.bin.parent), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout

    def calls(self) -> list[str]:
        """What the stubs wrote down since the last look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_first_run_installs_the_pins_and_then_warpgrade(place):
    status, said = place.run()
    pins, check, wheel = place.calls()
    assert status == 0
    assert pins.endswith("-r requirements.txt")
    assert check.endswith(" check")
    assert "--no-index" in wheel
    assert "--editable" not in wheel
    assert said.splitlines()[-1].startswith("setup: ready")


def test_a_second_run_installs_nothing(place):
    place.run()
    place.calls()
    assert place.run()[0] == 0
    assert place.calls() == []


@pytest.mark.parametrize("change", ["changed", "added", "deleted"])
def test_a_file_of_warpgrade_that_changes_has_it_installed_again(place, change):
    place.run()
    place.calls()
    match change:
        case "changed":
            (place.course / "warpgrade/a.py").write_text("other")
        case "added":
            (place.course / "warpgrade/c.py").write_text("new")
        case "deleted":
            (place.course / "warpgrade/b.py").unlink()
    place.run()
    (wheel,) = place.calls()
    assert "--no-index" in wheel


def test_changed_pins_are_installed_again(place):
    place.run()
    place.calls()
    (place.course / "requirements.txt").write_text("other")
    place.run()
    assert place.calls()[0].endswith("-r requirements.txt")


def test_a_python_that_is_too_old_is_refused_with_its_version(place):
    place.stub("old", PYTHON.format(too_old=1, version="3.10.2"))
    status, said = place.run(PYTHON="old")
    assert status != 0
    assert "Python 3.10.2" in said
    assert "needs Python 3.11" in said
    assert not (place.course / ".venv").exists()


def test_without_any_new_python_it_says_what_to_install(place):
    (place.bin / "python3.11").unlink()
    place.stub("python3", PYTHON.format(too_old=1, version="3.9.1"))
    status, said = place.run()
    assert status != 0
    assert "Python 3.9.1" in said
    assert "PYTHON=" in said


def test_a_python_that_is_on_the_path_and_does_not_start_is_passed_over(place):
    place.stub("python3.11", "#!/bin/sh\necho 'pyenv: python3.11: command not found' >&2\nexit 127\n")
    place.stub("python3.12", PYTHON.format(too_old=0, version="3.12.1"))
    status, said = place.run()
    assert status == 0
    assert "3.12.1" in said


def test_without_bubblewrap_and_rights_it_says_what_will_not_work_and_succeeds(place):
    (place.bin / "bwrap").unlink()
    place.stub("apt-get", '#!/bin/sh\necho "$@" >>"$LOG"\n')
    status, said = place.run()
    assert status == 0
    assert "nothing can be graded" in said
    assert "sudo apt-get install bubblewrap" in said
    assert not any("install -y" in call for call in place.calls())


def test_root_gets_what_is_missing_by_apt_get_after_an_update_where_that_is_needed(place):
    (place.bin / "bwrap").unlink()
    (place.bin / "g++").unlink()
    place.stub("id", "#!/bin/sh\necho 0\n")
    place.stub(
        "apt-get",
        '#!/usr/bin/env bash\necho "apt-get $*" >>"$LOG"\n'
        '[ "$1" = update ] && touch "$TMPDIR/updated"\n[ -e "$TMPDIR/updated" ]\n',
    )
    status, said = place.run()
    assert status == 0
    assert "nothing can be graded" not in said
    install = "apt-get install -y --no-install-recommends bubblewrap g++"
    assert [call for call in place.calls() if call.startswith("apt-get")] == [install, "apt-get update", install]


def test_an_apt_get_that_fails_does_not_fail_the_setup(place):
    (place.bin / "bwrap").unlink()
    place.stub("id", "#!/bin/sh\necho 0\n")
    place.stub("apt-get", "#!/bin/sh\necho no network; exit 100\n")
    status, said = place.run()
    assert status == 0
    assert "no network" in said
    assert "nothing can be graded" in said


def test_debian_packages_can_be_left_alone(place):
    (place.bin / "bwrap").unlink()
    place.stub("id", "#!/bin/sh\necho 0\n")
    place.stub("apt-get", '#!/bin/sh\necho "apt-get $*" >>"$LOG"\n')
    assert place.run(SYSTEM_PACKAGES="no")[0] == 0
    assert not any(call.startswith("apt-get") for call in place.calls())


def test_debians_python_gets_the_module_that_makes_virtual_environments(place):
    place.stub("id", "#!/bin/sh\necho 0\n")
    place.stub("apt-get", '#!/bin/sh\necho "apt-get $*" >>"$LOG"; touch "$TMPDIR/python3.11-venv"\n')
    status, _ = place.run(NO_ENSUREPIP="1")
    assert status == 0
    assert place.calls()[0].endswith(" python3.11-venv")


def test_without_that_module_and_rights_it_says_how_to_get_it(place):
    status, said = place.run(NO_ENSUREPIP="1")
    assert status != 0
    assert "sudo apt-get install python3.11-venv" in said


def test_a_folder_that_is_no_virtual_environment_is_left_alone(place):
    (place.course / "envs").mkdir()
    (place.course / "envs/precious").write_text("mine")
    status, said = place.run(VENV="envs")
    assert status != 0
    assert "is no virtual environment" in said
    assert (place.course / "envs/precious").read_text() == "mine"
    (place.course / "half").mkdir()
    (place.course / "half/pyvenv.cfg").write_text("")
    assert place.run(VENV="half")[0] == 0, "one that a stopped run left is made again"
