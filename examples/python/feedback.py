"""Asks a question, rates the answer, and reads the rating back.

Only the standard library is needed.
"""

import base64
import json
import os
import urllib.request

URL = os.environ.get("WEIR_URL", "http://127.0.0.1:8000")
KEY = os.environ.get("WEIR_API_KEY", "none")
PROJECT = "acme/support"


def post(path, body, authorization):
    request = urllib.request.Request(
        URL + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Compat-Project": PROJECT, "Authorization": authorization},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


bearer = "Bearer " + KEY
# Feedback takes a password, as the clients of W&B Weave send it: the user name "api" and the key.
basic = "Basic " + base64.b64encode(f"api:{KEY}".encode()).decode()

answer = post(
    "/v1/chat/completions",
    {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 50},
    bearer,
)
print("the answer is", answer["id"])

# The id of an answer is what feedback refers to.
ref = f"weir:///{PROJECT}/call/{answer['id']}"
receipt = post(
    "/feedback/replace",
    {
        "project_id": PROJECT,
        "trace_ref": ref,
        "feedback_type": "wandb.reaction.1",
        "payload": {"emoji": "👍"},
        "feedback_id": "none",  # the record to replace: none
    },
    basic,
)
print("feedback", receipt["id"], receipt["payload"])

found = post(
    "/feedback/query",
    {"project_id": PROJECT, "query": {"$expr": {"$eq": [{"$getField": "trace_ref"}, {"$literal": ref}]}}},
    basic,
)
print(found["total_count"], "found:", found["result"])
