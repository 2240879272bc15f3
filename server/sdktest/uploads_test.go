package sdktest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"weir/server"
	"weir/server/batchesapi"
	"weir/server/servertest"
)

// TestSDKUploads: a file is sent in parts by OpenAI's own client, and is read as any other.
func TestSDKUploads(t *testing.T) {
	h := newServer(t, true, func(cfg *server.Config) {
		cfg.APIKeys = []string{"k"}
		cfg.Batches = batchesapi.NewStore(servertest.NewDB(t), 0, 0)
	})
	c, ctx := sdk(h), context.Background()
	begin := func() *openai.Upload {
		t.Helper()
		u, err := c.Uploads.New(ctx, openai.UploadNewParams{
			Bytes: 10, Filename: "in.jsonl", MimeType: "application/jsonl", Purpose: openai.FilePurposeBatch,
			ExpiresAfter: openai.UploadNewParamsExpiresAfter{Seconds: 3600},
		})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	u := begin()
	var parts []string
	for _, text := range []string{"01234", "56789"} {
		p, err := c.Uploads.Parts.New(ctx, u.ID, openai.UploadPartNewParams{Data: strings.NewReader(text)})
		if err != nil || p.UploadID != u.ID || p.CreatedAt == 0 {
			t.Fatalf("%+v %v", p, err)
		}
		parts = append(parts, p.ID)
	}
	done, err := c.Uploads.Complete(ctx, u.ID, openai.UploadCompleteParams{PartIDs: parts, Md5: openai.String("781e5e245d69b566979b86e28d23f2c7")})
	if err != nil || done.Status != openai.UploadStatusCompleted || done.File.Bytes != 10 || done.File.Filename != "in.jsonl" || done.File.ExpiresAt-done.File.CreatedAt != 3600 {
		t.Fatalf("%+v %v", done, err)
	}
	answer, err := c.Files.Content(ctx, done.File.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "0123456789" {
		t.Errorf("%q %v", text, err)
	}
	dropped, err := c.Uploads.Cancel(ctx, begin().ID)
	if err != nil || dropped.Status != openai.UploadStatusCancelled {
		t.Errorf("%+v %v", dropped, err)
	}
	var refused *openai.Error
	if _, err = c.Uploads.Complete(ctx, dropped.ID, openai.UploadCompleteParams{PartIDs: parts}); !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound {
		t.Errorf("a cancelled upload is completed: %v", err)
	}
}
