#!/bin/sh
# Asks a question, rates the answer, and reads the rating back.
#
# Feedback is written with Basic credentials: the user name "api" and the key.
set -eu
url=${WEIR_URL:-http://127.0.0.1:8000}
key=${WEIR_API_KEY:-none}
project=acme/support

answer=$(curl -sS --fail-with-body "$url/v1/chat/completions" -H "Authorization: Bearer $key" -H "Compat-Project: $project" \
  -H 'Content-Type: application/json' -d '{"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 50}')
id=$(printf '%s' "$answer" | sed 's/^{"id":"\([^"]*\)".*/\1/')
echo "== the answer $id"

# "feedback_id" names a record to replace; an id that does not exist replaces nothing.
echo "== a reaction to it"
curl -sS --fail-with-body -u "api:$key" "$url/feedback/replace" -H 'Content-Type: application/json' -d '{
  "project_id": "'"$project"'",
  "trace_ref": "weir:///'"$project/call/$id"'",
  "feedback_type": "wandb.reaction.1",
  "payload": {"emoji": "👍"},
  "feedback_id": "none"
}'

echo; echo "== all feedback on it"
curl -sS --fail-with-body -u "api:$key" "$url/feedback/query" -H 'Content-Type: application/json' -d '{
  "project_id": "'"$project"'",
  "query": {"$expr": {"$eq": [{"$getField": "trace_ref"}, {"$literal": "weir:///'"$project/call/$id"'"}]}}
}'
echo
