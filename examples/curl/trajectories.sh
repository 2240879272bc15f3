#!/bin/sh
# Logs a group of rollouts with rewards, then reads their metrics and exports them.
set -eu
url=${WEIR_URL:-http://127.0.0.1:8000}/v1/preview/models/capitals
key=${WEIR_API_KEY:-none}

echo "== two rollouts of one question, logged as a group"
curl -sS --fail-with-body "$url/log" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -d '{
  "split": "train",
  "step": 1,
  "trajectory_groups": [{
    "trajectories": [
      {"messages_and_choices": [
         {"role": "user", "content": "What is the capital of France?"},
         {"role": "assistant", "content": "Paris."}],
       "reward": 1.0, "metrics": {"words": 1}},
      {"messages_and_choices": [
         {"role": "user", "content": "What is the capital of France?"},
         {"role": "assistant", "content": "I think it is Lyon."}],
       "reward": 0.0, "metrics": {"words": 5}}],
    "metadata": {"question": "france"}
  }]
}'

echo; echo "== metrics"
curl -sS --fail-with-body "$url/metrics?split=train" -H "Authorization: Bearer $key"

echo; echo "== the good ones, a line each"
curl -sS --fail-with-body "$url/export?format=jsonl&split=train&min_reward=0.5" -H "Authorization: Bearer $key"
