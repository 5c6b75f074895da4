"""Each finding of the doctor, with both outcomes, from a machine that says what the test wants; and one real run."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpgrade import doctor
from warpgrade.cli import app
from warpgrade.doctor import Finding, Machine, Ran

USERNS = Path("/proc/sys/user/max_user_namespaces")
CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
SECCOMP = Path("/proc/sys/kernel/seccomp/actions_avail")
GIB = 1024**3


@dataclass
class FakeMachine(Machine):
    """A machine on which all is well, started by a user, with a GPU. Tests spoil one thing."""

    system: str = "Linux"
    release: str = "6.8.0-generic"
    python: tuple[str, str, str] = ("3", "11", "7")
    user: int = 1000
    free: int = 50 * GIB
    folder: Path = Path("/course/.venv/lib/python3.11/site-packages/warpgrade")
    programs: set[str] = field(default_factory=lambda: {"bwrap", "setpriv", "g++", "nvcc", "nvidia-smi"})
    answers: dict[str, Ran] = field(
        default_factory=lambda: {
            "bwrap --version": Ran(0, "bubblewrap 0.8.0"),
            "bwrap": Ran(0, ""),
            "g++": Ran(0, "g++ (Debian) 12.2.0\nCopyright"),
            "nvcc": Ran(0, "nvcc: NVIDIA\nCuda compilation tools, release 13.0, V13.0.88\nBuild"),
            "nvidia-smi": Ran(0, "NVIDIA T4, 580.1, 16384 MiB"),
        }
    )
    files: dict[Path, str] = field(
        default_factory=lambda: {
            USERNS: "96365",
            SECCOMP: "kill_process trap errno allow",
        }
    )
    control_groups: bool = True
    filter: bool = True
    problem: str = ""
    versions: dict[str, str] = field(
        default_factory=lambda: {"torch": "2.14.1", "triton": "3.8.0", "numpy": "2.4.6", "nbgrader": "0.9.6"}
    )
    commands: list[tuple[str, ...]] = field(default_factory=list)

    def uid(self):
        return self.user

    def which(self, program):
        return f"/usr/bin/{program}" if program in self.programs else None

    def run(self, *command):
        self.commands.append(command)
        return self.answers.get(" ".join(command[:2]), self.answers.get(command[0], Ran(127, "not found")))

    def read(self, path):
        return self.files.get(path)

    def can_make_control_groups(self):
        return self.control_groups

    def has_system_call_filter(self):
        return self.filter

    def sandbox_problem(self):
        return self.problem

    def version(self, package):
        return self.versions.get(package)

    def own_folder(self):
        return self.folder

    def free_bytes(self, path):
        return self.free

    def temporary(self):
        return Path("/tmp")


def find(machine: Machine, name: str) -> Finding:
    """The one finding of that name."""
    (found,) = [finding for finding in doctor.examine(machine) if finding.name == name]
    return found


@pytest.mark.parametrize("user", [0, 1000])
def test_a_machine_on_which_all_is_well_has_nothing_to_mend(user):
    findings = doctor.examine(FakeMachine(user=user))
    assert doctor.exit_code(findings) == 0
    assert [finding.name for finding in findings if finding.on is False or finding.remedy] == []
    assert "needs is on" in doctor.report(findings)


def spoiled(**changes) -> FakeMachine:
    """A good machine with some attributes replaced."""
    return FakeMachine(**changes)


def without(name: str, *removed) -> FakeMachine:
    """A good machine that lacks some members of one of its collections."""
    machine = FakeMachine()
    collection = getattr(machine, name)
    for item in removed:
        collection.pop(item) if isinstance(collection, dict) else collection.discard(item)
    return machine


def answering(program: str, ran: Ran, **changes) -> FakeMachine:
    """A good machine on which one program ends in another way."""
    machine = FakeMachine(**changes)
    machine.answers[program] = ran
    return machine


def saying(path: Path, text: str, **changes) -> FakeMachine:
    """A good machine on which one file of the kernel says something else."""
    machine = FakeMachine(**changes)
    machine.files[path] = text
    return machine


def with_versions(**versions: str) -> FakeMachine:
    """A good machine with other versions of some packages."""
    machine = FakeMachine()
    machine.versions.update(versions)
    return machine


BLOCKING = {
    "macOS": (spoiled(system="Darwin"), "Linux", "WSL2"),
    "an old Python": (spoiled(python=("3", "10", "2")), "Python", "Python 3.11"),
    "no space": (spoiled(free=GIB), "disk space", "TMPDIR"),
    "no bubblewrap": (without("programs", "bwrap"), "bubblewrap", "sudo apt-get install bubblewrap"),
    "bubblewrap does not start": (answering("bwrap", Ran(1, "bwrap: no")), "bubblewrap", "container"),
    "no setpriv for root": (spoiled(user=0, programs={"bwrap"}), "setpriv", "apt-get install util-linux"),
    "no namespaces": (saying(USERNS, "0"), "user namespaces", "sysctl -w user.max_user_namespaces"),
    "no namespaces in the kernel": (without("files", USERNS), "user namespaces", "sysctl"),
    "namespaces closed to users": (saying(CLONE, "0"), "user namespaces", "unprivileged_userns_clone=1"),
    "no seccomp": (without("files", SECCOMP), "system-call filter", "CONFIG_SECCOMP_FILTER"),
    "a sandbox that leaks": (spoiled(problem="source can be seen"), "sandbox as a whole", "running-a-class.md"),
    "another processor": (spoiled(filter=False), "system-call filter", "x86_64"),
    "no torch": (without("versions", "torch"), "torch", "make setup"),
    "no triton": (without("versions", "triton"), "triton", "make setup"),
    "no numpy": (without("versions", "numpy"), "numpy", "make setup"),
    "triton 3.6 with numpy 2.4": (
        with_versions(torch="2.11.0+cu130", triton="3.6.0"),
        "Triton's interpreter",
        "numpy<2.4",
    ),
}


def test_a_machine_without_nbgrader_judges_all_the_same():
    machine = without("versions", "nbgrader")
    found = find(machine, "nbgrader")
    assert found.on is False
    assert "one with a gradebook records" in found.detail
    assert doctor.exit_code(doctor.examine(machine)) == 0


@pytest.mark.parametrize("what", BLOCKING)
def test_what_blocks_grading_is_off_named_and_has_a_remedy(what):
    machine, name, remedy = BLOCKING[what]
    findings = doctor.examine(machine)
    found = find(machine, name)
    assert found.on is False
    assert remedy in found.remedy
    assert doctor.exit_code(findings) == 1
    assert name in doctor.report(findings).splitlines()[-1]


OPTIONAL = {
    "no g++": (without("programs", "g++"), "C++ compiler"),
    "no nvcc": (without("programs", "nvcc"), "nvcc"),
    "a broken nvcc": (answering("nvcc", Ran(127, "cannot execute")), "nvcc"),
    "no NVIDIA driver": (without("programs", "nvidia-smi"), "NVIDIA GPU"),
    "a broken NVIDIA driver": (answering("nvidia-smi", Ran(9, "couldn't communicate")), "NVIDIA GPU"),
    "no control groups": (spoiled(control_groups=False), "memory and process limits by the kernel"),
}


@pytest.mark.parametrize("what", OPTIONAL)
def test_what_grading_can_do_without_is_off_and_does_not_block(what):
    machine, name = OPTIONAL[what]
    assert find(machine, name).on is False
    assert doctor.exit_code(doctor.examine(machine)) == 0


def test_without_a_gpu_speed_is_said_to_be_pending():
    assert "speed stays pending" in find(without("programs", "nvidia-smi"), "NVIDIA GPU").detail
    assert find(FakeMachine(), "NVIDIA GPU").detail == "NVIDIA T4, 580.1, 16384 MiB"


def test_the_sandbox_is_tried_as_a_whole_once_nothing_else_blocks():
    whole = find(FakeMachine(problem="never asked", free=0), "sandbox as a whole")
    assert whole.on is None
    assert "disk space" in whole.detail
    assert find(FakeMachine(), "sandbox as a whole").on is True


def test_ubuntus_apparmor_rule_has_a_profile_as_remedy_where_bubblewrap_does_not_start():
    machine = answering("bwrap", Ran(1, "bwrap: setting up uid map: Permission denied"))
    machine.files[APPARMOR] = "1"
    rule = find(machine, "AppArmor's rule for user namespaces")
    assert rule.on is False
    assert "profile bwrap /usr/bin/bwrap flags=(unconfined)" in rule.remedy
    assert "apparmor_parser -r" in rule.remedy
    bubblewrap = find(machine, "bubblewrap")
    assert "Permission denied" in bubblewrap.detail
    assert "above" in bubblewrap.remedy


@pytest.mark.parametrize(("user", "says"), [(0, "not for root"), (1000, "lets it through")])
def test_ubuntus_apparmor_rule_does_not_matter_where_bubblewrap_starts(user, says):
    rule = find(saying(APPARMOR, "1", user=user), "AppArmor's rule for user namespaces")
    assert rule.on is None
    assert says in rule.detail


def test_root_and_a_user_start_bubblewrap_in_different_ways():
    root, user = FakeMachine(user=0), FakeMachine()
    for machine in (root, user):
        assert find(machine, "bubblewrap").on is True
    assert any("setpriv" in command for command in root.commands)
    assert any("--disable-userns" in command for command in user.commands)
    assert find(root, "user namespaces").on is None
    assert find(user, "setpriv").on is None


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (with_versions(torch="2.16.0"), "torch"),
        (with_versions(triton="3.9.0"), "triton"),
        (with_versions(numpy="2.0.1"), "numpy"),
        (with_versions(nbgrader="1.0"), "nbgrader"),
        (spoiled(python=("3", "14", "0")), "Python"),
        (spoiled(folder=Path("/course/warpgrade")), "own wheel"),
    ],
)
def test_what_nobody_has_tried_is_neither_on_nor_off(machine, name):
    assert find(machine, name).on is None
    assert doctor.exit_code(doctor.examine(machine)) == 0


@pytest.mark.parametrize(("numpy", "works"), [("2.3.5", True), ("2.4.0rc1", False)])
def test_triton_3_6_interprets_with_an_older_numpy_only(numpy, works):
    machine = with_versions(triton="3.6.0", numpy=numpy)
    assert find(machine, "Triton's interpreter").on is works


def test_wsl2_is_recognised():
    assert "WSL2" in find(spoiled(release="5.15.167-microsoft-standard-WSL2"), "Linux").detail


def test_json_says_the_same_as_the_text():
    findings = doctor.examine(without("programs", "bwrap"))
    document = json.loads(doctor.as_json(findings))
    assert document["model_tier"] is False
    assert [one["name"] for one in document["findings"]] == [finding.name for finding in findings]
    (bubblewrap,) = [one for one in document["findings"] if one["name"] == "bubblewrap"]
    assert bubblewrap == {
        "name": "bubblewrap",
        "on": False,
        "detail": "missing: it is what the sandbox is made of",
        "remedy": "sudo apt-get install bubblewrap",
        "needed": True,
    }


@pytest.mark.parametrize(("machine", "status"), [(FakeMachine(), 0), (without("programs", "bwrap"), 1)])
def test_the_command_prints_the_findings_and_its_status_says_whether_grading_works(machine, status, monkeypatch):
    findings = doctor.examine(machine)
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    text, as_json = CliRunner().invoke(app, ["doctor"]), CliRunner().invoke(app, ["doctor", "--json"])
    assert (text.exit_code, as_json.exit_code) == (status, status)
    assert text.stdout.strip() == doctor.report(findings).strip()
    assert json.loads(as_json.stdout)["model_tier"] is (status == 0)


def test_a_real_run_on_this_machine_answers_everything():
    machine = Machine()
    findings = doctor.examine(machine)
    assert all(finding.detail for finding in findings)
    names = [finding.name for finding in findings]
    assert len(names) == len(set(names))
    assert find(machine, "torch").on is not False
    assert doctor.report(findings)
    assert doctor.exit_code(findings) == int(any(finding.blocks for finding in findings))


def test_a_program_that_cannot_start_is_no_exception():
    assert Machine().run("/nonexistent/program").status == 127
    assert Machine().read(Path("/nonexistent/file")) is None
    assert Machine().version("no-such-package-anywhere") is None
