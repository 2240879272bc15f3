#!/bin/sh
# Asks a question, then streams an answer.
set -eu
url=${WEIR_URL:-http://127.0.0.1:8000}
key=${WEIR_API_KEY:-none}

echo "== the models"
curl -sS --fail-with-body "$url/v1/models" -H "Authorization: Bearer $key"

echo; echo "== an answer"
curl -sS --fail-with-body "$url/v1/chat/completions" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -d '{
  "messages": [{"role": "user", "content": "What is the capital of France?"}],
  "temperature": 0,
  "max_tokens": 50
}'

# -N shows each event as it arrives.
echo; echo "== a stream"
curl -sS -N --fail-with-body "$url/v1/chat/completions" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -d '{
  "messages": [{"role": "user", "content": "Tell me a story about a robot."}],
  "stream": true,
  "max_tokens": 50
}'
