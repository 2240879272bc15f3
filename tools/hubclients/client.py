"""The newest huggingface_hub as the other side of weir's tests of the hub's cache.

hub/python_real_test.go runs this with one of the actions below. HF_HUB_CACHE and HF_ENDPOINT are
set by it. What an action finds out is printed as JSON, for the test to judge.
"""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_DISABLE_XET"] = "1"  # the server of the test does not speak it
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import huggingface_hub
from huggingface_hub import constants, scan_cache_dir, snapshot_download, try_to_load_from_cache
from huggingface_hub.file_download import _CACHED_NO_EXIST, repo_folder_name


def lock_path(repo, etag):
    return os.path.join(constants.HF_HUB_CACHE, ".locks", repo_folder_name(repo_id=repo, repo_type="model"), etag + ".lock")


def download(repo, *patterns):
    """Downloads files of a repository, and prints where they are."""
    return snapshot_download(repo, allow_patterns=list(patterns) or None)


def read(repo, revision, *names):
    """Finds files without the network: a path, or null, or "no_exist"."""
    found = {}
    for name in names:
        path = try_to_load_from_cache(repo, name, revision=revision)
        found[name] = "no_exist" if path is _CACHED_NO_EXIST else path
    return {"folder": snapshot_download(repo, revision=revision, local_files_only=True), "files": found}


def scan():
    """What the cache has, and what is wrong with it."""
    info = scan_cache_dir()
    return {
        "warnings": [str(w) for w in info.warnings],
        "incomplete": sorted(f.file_path.name for f in info.incomplete_files),
        "repos": {
            repo.repo_id: {
                r.commit_hash: {"refs": sorted(r.refs), "size": r.size_on_disk, "files": sorted(f.file_path.relative_to(r.snapshot_path).as_posix() for f in r.files)}
                for r in repo.revisions
            }
            for repo in info.repos
        },
    }


def delete(commit):
    """Deletes a revision."""
    scan_cache_dir().delete_revisions(commit).execute()


def hold(repo, etag):
    """Takes a lock, says so, and holds it until there is a line to read."""
    from huggingface_hub.utils import WeakFileLock

    path = lock_path(repo, etag)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(path):
        print("locked", flush=True)
        sys.stdin.readline()
    print("unlocked", flush=True)


def try_lock(repo, etag):
    """Tells whether a lock can be taken at once."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock_path(repo, etag), timeout=0, mode=0o664):
            return True
    except Timeout:
        return False


def share(repo, etag, xet_hash):
    """Moves a blob to the store that repositories share."""
    from huggingface_hub.utils._shared_blobs import publish_blob_to_shared_store

    blob = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="model") / "blobs" / etag
    return publish_blob_to_shared_store(blob_path=str(blob), xet_hash=xet_hash, cache_dir=constants.HF_HUB_CACHE, expected_size=blob.stat().st_size)


def version():
    return huggingface_hub.__version__


if __name__ == "__main__":
    actions = {f.__name__: f for f in (download, read, scan, delete, hold, try_lock, share, version)}
    result = actions[sys.argv[1]](*sys.argv[2:])
    if sys.argv[1] != "hold":
        print(json.dumps(result))
