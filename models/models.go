// Package models holds the model that ships inside the binary, so that a server
// answers before anything was downloaded.
package models

import (
	"embed"
	"io/fs"
)

//go:embed weir-tiny
var files embed.FS

// Name is what the bundled model is served as.
const Name = "weir-tiny"

// Bundled is the folder of the bundled model: config.json, model.safetensors,
// the tokenizer's files, the chat template and heldout.jsonl.
func Bundled() fs.FS {
	sub, err := fs.Sub(files, Name)
	if err != nil { // only a name that is not a path fails
		panic(err)
	}
	return sub
}
