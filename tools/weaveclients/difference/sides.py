"""The two servers that are compared: weir over HTTP, and Weave's SqliteTraceServer in this process.

Both take a path and a body of JSON and give (status, answer). The reference is called through
the layer that Weave puts in front of its servers (ExternalTraceServer), so that both get the same
names of projects and the same references.
"""

import base64
import contextlib
import http.client
import io
import json
import re
import urllib.parse

from pydantic import ValidationError

from weave.trace_server import external_to_internal_trace_server_adapter as adapter
from weave.trace_server import sqlite_trace_server as sqlite
from weave.trace_server import trace_server_interface as tsi
from weave.trace_server.errors import handle_server_exception

USER = "user-of-the-reference"

# Paths, the method of the reference, its request, and the member of the request that names the user.
FUNCTIONS = {
    "/feedback/create": ("feedback_create", tsi.FeedbackCreateReq, ""),
    "/feedback/replace": ("feedback_replace", tsi.FeedbackReplaceReq, ""),
    "/feedback/query": ("feedback_query", tsi.FeedbackQueryReq, None),
    "/feedback/purge": ("feedback_purge", tsi.FeedbackPurgeReq, None),
    "/call/start": ("call_start", tsi.CallStartReq, "start"),
    "/call/end": ("call_end", tsi.CallEndReq, None),
    "/call/update": ("call_update", tsi.CallUpdateReq, ""),
    "/call/read": ("call_read", tsi.CallReadReq, None),
    "/calls/delete": ("calls_delete", tsi.CallsDeleteReq, ""),
    "/calls/stream_query": ("calls_query_stream", tsi.CallsQueryReq, None),
    "/calls/query_stats": ("calls_query_stats", tsi.CallsQueryStatsReq, None),
    "/obj/create": ("obj_create", tsi.ObjCreateReq, "obj"),
    "/obj/read": ("obj_read", tsi.ObjReadReq, None),
    "/obj/delete": ("obj_delete", tsi.ObjDeleteReq, None),
    "/objs/query": ("objs_query", tsi.ObjQueryReq, None),
    "/table/create": ("table_create", tsi.TableCreateReq, None),
    "/table/update": ("table_update", tsi.TableUpdateReq, None),
    "/table/query": ("table_query", tsi.TableQueryReq, None),
    "/table/query_stats": ("table_query_stats", tsi.TableQueryStatsReq, None),
    "/refs/read_batch": ("refs_read_batch", tsi.RefsReadBatchReq, None),
    "/file/create": ("file_create", tsi.FileCreateReq, None),
    "/file/content": ("file_content_read", tsi.FileContentReadReq, None),
}


class Ids(adapter.IdConverter):
    """Internal ids of projects have no slash; users and runs keep theirs."""

    def ext_to_int_project_id(self, project_id):
        return base64.urlsafe_b64encode(project_id.encode()).decode().rstrip("=")

    def int_to_ext_project_id(self, project_id):
        try:
            return base64.urlsafe_b64decode(project_id + "=" * (-len(project_id) % 4)).decode()
        except ValueError:
            return None

    def ext_to_int_run_id(self, run_id):
        return run_id

    int_to_ext_run_id = ext_to_int_user_id = int_to_ext_user_id = ext_to_int_run_id


def number(text, kind):
    try:
        return kind(text)
    except (TypeError, ValueError):
        return None


def exists(document, path):
    """JSON_EXISTS of ClickHouse for the paths that Weave makes: $."name"[0]."other"."""
    v = json.loads(document)
    for name, index in re.findall(r'\."([^"]*)"|\[(-?\d+)\]', path):
        if not isinstance(v, dict if not index else list) or (name not in v if not index else not 0 <= int(index) < len(v)):
            return False
        v = v[int(index) if index else name]
    return True


def lend_functions(connection):
    """Weave's statements about feedback name functions of ClickHouse, which SQLite lacks.

    Without them every $convert and every order by a payload fails in the reference, so it
    borrows these. None takes part where SQLite has a function of its own.
    """
    connection.create_function("JSON_EXISTS", 2, exists)
    connection.create_function("toInt64OrNull", 1, lambda v: number(str(v), int))
    connection.create_function("toFloat64OrNull", 1, lambda v: number(str(v), float))
    connection.create_function("toUInt8OrNull", 1, lambda v: number(str(v), int))
    connection.create_function("toString", 1, lambda v: None if v is None else str(v))


def dumped(answer):
    if isinstance(answer, tsi.FileContentReadRes):
        return {"content": answer.content.decode("latin-1")}
    if hasattr(answer, "model_dump"):
        return answer.model_dump(mode="json")
    return [dumped(a) for a in answer]


class Reference:
    def __init__(self):
        # Rows and tables have a digest that is unique in the whole file, so each round gets one of its own.
        sqlite.close_conn_cursor()
        self.sqlite = sqlite.SqliteTraceServer(":memory:")
        self.sqlite.setup_tables()
        lend_functions(sqlite.get_conn_cursor(":memory:")[0])
        self.server = adapter.ExternalTraceServer(self.sqlite, Ids())

    def post(self, path, body):
        method, model, user = FUNCTIONS[path]
        try:
            if path == "/file/create":
                body = {**body, "name": "file", "content": body["content"].encode("latin-1")}
            request = model.model_validate(body)
        except ValidationError as e:
            return 422, {"detail": str(e)}
        if user is not None:
            setattr(getattr(request, user) if user else request, "wb_user_id", USER)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return 200, dumped(getattr(self.server, method)(request))
        except Exception as e:  # noqa: BLE001
            sqlite.get_conn_cursor(":memory:")[0].rollback()
            status = handle_server_exception(e).status_code
            return status, {"reason": f"{type(e).__name__}: {e}"}


class Weir:
    def __init__(self, url, key):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
        self.headers = {
            "Authorization": "Basic " + base64.b64encode(b"api:" + key.encode()).decode(),
            # With it Weave's newer clients say that they know all columns of feedback.
            "X-Weave-Client-Capabilities": "1",
        }

    def post(self, path, body):
        if path == "/file/create":
            boundary = "boundary-of-the-form"
            part = f'--{boundary}\r\nContent-Disposition: form-data; name='
            data = (
                f'{part}"project_id"\r\n\r\n{body["project_id"]}\r\n'
                f'{part}"file"; filename="file"\r\n\r\n'
            ).encode() + body["content"].encode("latin-1") + f"\r\n--{boundary}--\r\n".encode()
            kind = f"multipart/form-data; boundary={boundary}"
        else:
            data, kind = json.dumps(body, ensure_ascii=False).encode(), "application/json"
        self.connection.request("POST", path, data, {**self.headers, "Content-Type": kind})
        response = self.connection.getresponse()
        text = response.read()
        if path == "/file/content" and response.status == 200:
            return 200, {"content": text.decode("latin-1")}
        if path == "/calls/stream_query" and response.status == 200:
            return 200, [json.loads(line) for line in text.splitlines()]
        return response.status, json.loads(text or b"null")
