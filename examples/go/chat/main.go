// Command chat asks a question, then streams an answer, with OpenAI's own client.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	log.SetFlags(0)
	client := openai.NewClient(
		option.WithBaseURL(cmp.Or(os.Getenv("WEIR_URL"), "http://127.0.0.1:8000")+"/v1"),
		option.WithAPIKey(cmp.Or(os.Getenv("WEIR_API_KEY"), "none")),
	)
	ctx := context.Background()
	models, err := client.Models.List(ctx)
	if err != nil {
		log.Fatal(err)
	}
	model := models.Data[0].ID

	answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:       model,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the capital of France?")},
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(50),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n\n", model, answer.Choices[0].Message.Content)

	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model:         model,
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Tell me a story about a robot.")},
		MaxTokens:     openai.Int(50),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	var tokens int64
	for stream.Next() {
		chunk := stream.Current()
		for _, c := range chunk.Choices {
			fmt.Print(c.Delta.Content)
		}
		tokens = max(tokens, chunk.Usage.CompletionTokens)
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n(%d tokens)\n", tokens)
}
