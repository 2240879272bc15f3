// Command feedback asks a question, rates the answer, and reads the rating back.
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

const project = "acme/support"

var (
	url = cmp.Or(os.Getenv("WEIR_URL"), "http://127.0.0.1:8000")
	key = cmp.Or(os.Getenv("WEIR_API_KEY"), "none")
)

type object = map[string]any

func main() {
	log.SetFlags(0)
	var answer struct{ ID string }
	post("/v1/chat/completions", object{
		"messages":   []object{{"role": "user", "content": "What is the capital of France?"}},
		"max_tokens": 50,
	}, &answer)
	fmt.Println("the answer is", answer.ID)

	// The id of an answer is what feedback refers to.
	ref := "weir:///" + project + "/call/" + answer.ID
	var receipt struct {
		ID      string
		Payload json.RawMessage
	}
	post("/feedback/replace", object{
		"project_id":    project,
		"trace_ref":     ref,
		"feedback_type": "wandb.reaction.1",
		"payload":       object{"emoji": "👍"},
		"feedback_id":   "none", // the record to replace: none
	}, &receipt)
	fmt.Printf("feedback %s: %s\n", receipt.ID, receipt.Payload)

	var found struct {
		Result []json.RawMessage
		Total  int `json:"total_count"`
	}
	post("/feedback/query", object{
		"project_id": project,
		"query":      object{"$expr": object{"$eq": []object{{"$getField": "trace_ref"}, {"$literal": ref}}}},
	}, &found)
	fmt.Printf("%d found: %s\n", found.Total, found.Result)
}

// post sends body as JSON and decodes the answer into result.
func post(path string, body, result any) {
	text, err := json.Marshal(body)
	if err != nil {
		log.Fatal(err)
	}
	req, err := http.NewRequest("POST", url+path, bytes.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Compat-Project", project)
	if path == "/v1/chat/completions" {
		req.Header.Set("Authorization", "Bearer "+key)
	} else {
		req.SetBasicAuth("api", key) // feedback takes a password, as Weave's clients send it
	}
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
	if err := json.Unmarshal(answer, result); err != nil {
		log.Fatal(err)
	}
}
