"""OpenAI's Python SDK against /v1/files and /v1/batches of a running weir: files are sent, whole and in parts, listed,
read and deleted; a batch runs until it is completed; others fail or are cancelled. batches.test.mjs
starts the server and runs this; WEIR_URL and WEIR_API_KEY say where it is."""

import hashlib
import json
import os
import time

from openai import BadRequestError, NotFoundError, OpenAI

client = OpenAI(base_url=os.environ["WEIR_URL"] + "/v1", api_key=os.environ["WEIR_API_KEY"], max_retries=0)
chat = "/v1/chat/completions"


def line(number, url=chat, **more):
    body = {"model": "weir-tiny", "temperature": 0, "max_tokens": 20, "messages": [{"role": "user", "content": f"What is {number} + 1?"}]}
    return {"custom_id": f"request-{number}", "method": "POST", "url": url, "body": body | more}


def send(lines):
    text = "\n".join(json.dumps(one) for one in lines)
    return client.files.create(file=("in.jsonl", text.encode()), purpose="batch")


def ended(batch):
    while batch.status in ("validating", "in_progress", "finalizing", "cancelling"):
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    return batch


def results(file_id):
    return {one["custom_id"]: one for one in map(json.loads, client.files.content(file_id).text.splitlines())}


def files():
    sent = send([line(1)])
    assert sent.purpose == "batch" and sent.filename == "in.jsonl" and sent.status == "processed", sent
    assert client.files.retrieve(sent.id).bytes == sent.bytes == len(client.files.content(sent.id).content)
    assert sent.id in [f.id for f in client.files.list(purpose="batch")]
    assert client.files.delete(sent.id).deleted
    try:
        client.files.retrieve(sent.id)
        raise AssertionError("it is still there")
    except NotFoundError:
        pass


def parts():
    text = b"".join(json.dumps(line(n)).encode() + b"\n" for n in range(20))
    whole = {"file": text, "filename": "in.jsonl", "bytes": len(text), "mime_type": "application/jsonl", "purpose": "batch", "part_size": 1000}
    sent = client.uploads.upload_file_chunked(**whole, md5=hashlib.md5(text).hexdigest())
    assert sent.status == "completed" and sent.file.bytes == len(text), sent
    assert client.files.content(sent.file.id).content == text
    try:
        client.uploads.upload_file_chunked(**whole, md5="0" * 32)
        raise AssertionError("a checksum of something else")
    except BadRequestError as e:
        assert e.param == "md5", e


def completed():
    lines = [line(n) for n in range(20)] + [line(20, messages=[])]
    made = client.batches.create(input_file_id=send(lines).id, endpoint=chat, completion_window="24h", metadata={"run": "7"})
    batch = ended(made)
    assert batch.status == "completed" and batch.metadata == {"run": "7"}, batch
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (21, 20, 1), counts
    answers = results(batch.output_file_id)
    assert list(answers) == [f"request-{n}" for n in range(20)]
    one = answers["request-12"]["response"]
    direct = client.chat.completions.create(**line(12)["body"])
    assert one["status_code"] == 200 and one["body"]["choices"][0]["message"]["content"] == direct.choices[0].message.content, one
    assert results(batch.error_file_id)["request-20"]["response"]["status_code"] == 400
    assert made.id in [b.id for b in client.batches.list(limit=1)]


def failed():
    batch = ended(client.batches.create(input_file_id=send([line(1, url="/v1/completions"), line(1)]).id, endpoint=chat, completion_window="24h"))
    assert batch.status == "failed" and batch.errors.data[0].code == "mismatched_endpoint" and batch.errors.data[0].line == 1, batch
    try:
        client.batches.create(input_file_id="file-none", endpoint=chat, completion_window="24h")
        raise AssertionError("a batch of a file that is not there")
    except NotFoundError:
        pass
    try:
        client.files.create(file=("a", b"x"), purpose="assistants")
        raise AssertionError("a purpose that there is not")
    except BadRequestError as e:
        assert e.param == "purpose", e


def cancelled():
    lines = [line(n, max_tokens=200, ignore_eos=True) for n in range(500)]
    batch = client.batches.create(input_file_id=send(lines).id, endpoint=chat, completion_window="24h")
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    batch = ended(batch)
    assert batch.status == "cancelled" and batch.request_counts.completed < 500, batch


for part in (files, parts, completed, failed, cancelled):
    part()
    print(part.__name__, "ok")
