"""Reads the files of the Parquet export with pyarrow and DuckDB.

usage: check.py DIR, where TestFilesForOtherReaders has written to DIR selection.parquet,
selection.tar and expected.json, the groups as they were sent.
"""

import io
import json
import sys
import tarfile

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.string()),
        ("tool_call_id", pa.string()),
        ("trainable", pa.bool_()),
    ]
)
# The columns of OpenPipe ART. Its large_string is string here: large_string is a type of
# Arrow, which a file has only if an Arrow writer has noted it there.
ART = {
    "format_version": pa.int16(),
    "group_index": pa.int64(),
    "trajectory_index": pa.int64(),
    "group_json": pa.string(),
    "trajectory_json": pa.string(),
    "group_metadata": pa.string(),
    "group_metrics": pa.string(),
    "group_logs": pa.list_(pa.string()),
    "reward": pa.float64(),
    "metrics": pa.string(),
    "metadata": pa.string(),
    "tools": pa.string(),
    "logs": pa.list_(pa.string()),
    "messages": pa.list_(MESSAGE),
}
OURS = {
    "id": pa.string(),
    "log_id": pa.string(),
    "model_id": pa.string(),
    "split": pa.string(),
    "step": pa.int64(),
    "received_at": pa.timestamp("ms", "UTC"),
    "start_time": pa.timestamp("us", "UTC"),
    "initial_policy_version": pa.int64(),
    "final_policy_version": pa.int64(),
}


def plain(t):
    """Returns t with Arrow's default names for the elements of lists."""
    return pa.list_(t.value_type) if pa.types.is_list(t) else t


def schema(table, want):
    got = {f.name: plain(f.type) for f in table.schema}
    assert list(got) == list(want), list(got)
    for name, t in want.items():
        assert got[name] == t, (name, got[name], t)
    assert table.schema.metadata[b"art.trajectory_parquet.version"] == b"2", table.schema.metadata


def groups(rows):
    """Rebuilds the groups, with the checks of ART's own reader."""
    by = {}
    for r in rows:
        assert r["format_version"] == 2
        by.setdefault(r["group_index"], []).append(r)
    assert sorted(by) == list(range(len(by)))
    out = []
    for i in range(len(by)):
        assert len({r["group_json"] for r in by[i]}) == 1
        data = [r for r in by[i] if r["trajectory_index"] is not None]
        none = [r for r in by[i] if r["trajectory_index"] is None]
        assert bool(data) != bool(none) and len(none) <= 1
        assert all(r["trajectory_json"] is None for r in none)
        data.sort(key=lambda r: r["trajectory_index"])
        assert [r["trajectory_index"] for r in data] == list(range(len(data)))
        out.append([by[i][0]["group_json"], [r["trajectory_json"] for r in data]])
    return out


def derived(rows):
    for r in rows:
        if r["trajectory_json"] is None:
            assert r["reward"] is None
            continue
        t = json.loads(r["trajectory_json"])
        assert r["reward"] == t.get("reward", 0.0)
        for name in ("metrics", "metadata", "tools"):
            assert (json.loads(r[name]) if r[name] else None) == (t.get(name) or None), name
        assert (r["logs"] or None) == (t.get("logs") or None)


def main(folder):
    with open(folder + "/expected.json", encoding="utf-8") as f:
        want = json.load(f)
    path = folder + "/selection.parquet"
    table = pq.read_table(path)
    schema(table, ART | OURS)
    rows = table.to_pylist()
    assert groups(rows) == want
    derived(rows)
    with duckdb.connect(":memory:") as db:
        result = db.execute("SELECT * FROM read_parquet(?)", [path])
        names = [d[0] for d in result.description]
        other = [dict(zip(names, r)) for r in result.fetchall()]
        assert groups(other) == want
        derived(other)
        mean = db.execute("SELECT avg(reward) FROM read_parquet(?) WHERE split = 'train'", [path]).fetchone()[0]
        assert mean is not None
    members = 0
    with tarfile.open(folder + "/selection.tar") as tar:
        for m in tar.getmembers():
            table = pq.read_table(io.BytesIO(tar.extractfile(m).read()))
            schema(table, ART)
            derived(table.to_pylist())
            members += len(groups(table.to_pylist()))
    assert members == len(want), (members, len(want))
    print(f"{len(rows)} rows, {len(want)} groups: pyarrow {pa.__version__} and DuckDB {duckdb.__version__} read what was sent")


main(sys.argv[1])
