// Command trajectories logs a group of rollouts with rewards, then reads their
// metrics and exports them.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

var (
	url = cmp.Or(os.Getenv("WEIR_URL"), "http://127.0.0.1:8000") + "/v1/preview/models/capitals"
	key = cmp.Or(os.Getenv("WEIR_API_KEY"), "none")
)

type object = map[string]any

func main() {
	log.SetFlags(0)
	group := object{
		"trajectories": []object{rollout("Paris.", 1), rollout("I think it is Lyon.", 0)},
		"metadata":     object{"question": "france"},
	}
	body, err := json.Marshal(object{"split": "train", "step": 1, "trajectory_groups": []object{group}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("logged:", call("POST", "/log", body))
	fmt.Println("metrics:", call("GET", "/metrics?split=train", nil))
	fmt.Print("the good ones, a line each:\n", call("GET", "/export?format=jsonl&split=train&min_reward=0.5", nil))
}

// rollout is a conversation that somebody has judged.
func rollout(answer string, reward float64) object {
	return object{
		"messages_and_choices": []object{
			{"role": "user", "content": "What is the capital of France?"},
			{"role": "assistant", "content": answer},
		},
		"reward": reward,
	}
}

func call(method, path string, body []byte) string {
	req, err := http.NewRequest(method, url+path, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		log.Fatalf("%s: %s: %s", path, resp.Status, answer)
	}
	return string(answer)
}
