package models

import (
	"embed"
	"io/fs"
)

//go:embed weir-tiny
var files embed.FS

// Name is the name of the bundled model, under which it is served by default.
const Name = "weir-tiny"

// Bundled returns the folder of the bundled model: config.json, model.safetensors, the
// tokenizer's files, the chat template, and heldout.jsonl with conversations that the model
// was not trained on.
func Bundled() fs.FS {
	sub, err := fs.Sub(files, Name)
	if err != nil { // this happens only if the name is not a valid path
		panic(err)
	}
	return sub
}
