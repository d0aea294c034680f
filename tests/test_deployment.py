"""The examples of deployment, as far as they can be checked without their engines."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "deployment"
UNUSED = {"scikit-learn", "scipy", "joblib", "threadpoolctl"}  # imported by fits only


@pytest.fixture(scope="module")
def manifests():
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")))
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


@pytest.fixture(scope="module")
def container(manifests):
    (container,) = manifests["Deployment", "recuse"]["spec"]["template"]["spec"]["containers"]
    return container


@pytest.fixture(scope="module")
def dockerfile():
    """Return the instructions of the file, each on one line, without comments."""
    text = re.sub(r"^\s*#.*\n", "", (FOLDER / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line.split(None, 1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def argument_of(dockerfile, name):
    (value,) = [value for instruction, value in dockerfile if instruction == name]
    return value


def service_options():
    from recuse.cli.app import app

    return {option for parameter in get_command(app).commands["serve"].params for option in parameter.opts}


def check_command(arguments):
    assert [each for each in arguments if each.startswith("--") and each not in service_options()] == []


def requirement_names(lines):
    return {re.match(r"[\w-]+", line).group() for line in lines if line and not line.startswith("#")}


def test_the_requirements_are_those_of_the_package_without_what_fitting_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    given = (FOLDER / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert requirement_names(given) == requirement_names(declared) - UNUSED
    ranges = {line.split(";")[0].strip() for line in declared}
    assert [line for line in given if not line.startswith("#") and line not in ranges] == []


def test_the_image_copies_what_there_is_and_runs_as_a_user_without_rights(dockerfile):
    copied = [
        name for kind, value in dockerfile if kind == "COPY" and "--from" not in value for name in value.split()[:-1]
    ]
    assert "src" in copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert argument_of(dockerfile, "USER") == "10001"
    assert len([kind for kind, _ in dockerfile if kind == "FROM"]) == 2
    check_command([*json.loads(argument_of(dockerfile, "ENTRYPOINT")), *json.loads(argument_of(dockerfile, "CMD"))])


def test_the_health_check_of_the_image_is_valid_python(dockerfile):
    command = json.loads(argument_of(dockerfile, "HEALTHCHECK").partition("CMD ")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "HEALTHCHECK", "exec")


def test_probes_and_health_checks_name_routes_of_the_service(dockerfile, container, tmp_path):
    pytest.importorskip("recuse.serving.inference")
    from recuse.serving.guard import OPEN_PATHS

    probes = [container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    (health,) = re.findall(r"http://127.0.0.1:8000([\w/]+)", argument_of(dockerfile, "HEALTHCHECK"))
    assert {*probes, health} <= OPEN_PATHS  # they need no key
    assert {*probes, health} == {"/v2/health/live", "/v2/health/ready"}


def test_the_manifest_is_consistent(manifests, container):
    pod = manifests["Deployment", "recuse"]["spec"]["template"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    for volume in volumes.values():
        if "persistentVolumeClaim" in volume:
            assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in manifests
    assert manifests["Service", "recuse"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (port,) = container["ports"]
    assert {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")} == {port["name"]}
    settings = manifests["ConfigMap", "recuse"]["data"]
    variables = {each["name"]: each["valueFrom"] for each in container["env"] if "valueFrom" in each}
    assert variables["AUDIT_SHARE"]["configMapKeyRef"]["key"] in settings
    assert re.findall(r"\$\((\w+)\)", " ".join(container["args"])) == ["AUDIT_SHARE"]
    check_command(container["args"])


def test_the_pod_has_no_rights(manifests, container):
    pod = manifests["Deployment", "recuse"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    queue = container["args"][container["args"].index("--queue") + 1]
    (writable,) = [mount for mount in container["volumeMounts"] if queue.startswith(mount["mountPath"] + "/")]
    assert not writable.get("readOnly")
    assert manifests["Deployment", "recuse"]["spec"]["replicas"] == 1  # one writer of the queue


def test_the_unit_starts_the_service_and_can_write_its_queue(tmp_path):
    text = (FOLDER / "recuse.service").read_text(encoding="utf-8")
    settings = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    command = shlex.split(settings["ExecStart"])
    check_command(command)
    assert command[command.index("--queue") + 1].startswith(f"/var/lib/{settings['StateDirectory']}/")
    assert settings["DynamicUser"] == "yes"
    assert settings["ProtectSystem"] == "strict"


def test_the_telemetry_of_onnx_runtime_is_off_in_all_of_them(dockerfile, container):
    variables = [value.split() for kind, value in dockerfile if kind == "ENV"]
    assert "ORT_DISABLE_TELEMETRY=1" in variables[-1]  # of the image that runs
    assert {"name": "ORT_DISABLE_TELEMETRY", "value": "1"} in container["env"]
    unit = (FOLDER / "recuse.service").read_text(encoding="utf-8").splitlines()
    assert "Environment=ORT_DISABLE_TELEMETRY=1" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path):
    program = tmp_path / "recuse"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    text = (FOLDER / "recuse.service").read_text(encoding="utf-8")
    unit = tmp_path / "recuse.service"
    unit.write_text(text.replace("/opt/recuse/bin/recuse", str(program)), encoding="utf-8")
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    complaints = [line for line in result.stderr.splitlines() if "recuse.service" in line]
    assert (result.returncode, complaints) == (0, []), result.stderr
