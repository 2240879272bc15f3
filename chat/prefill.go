package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"weir/chat/jinja"
)

// A prefill leaves the final message open for the model to continue. The package
// documentation says why a mark is appended to the message, and the text cut where the mark
// appears (render_jinja_template in transformers). The mark ends in white space. If that is
// missing in the rendered text, the template trims messages, and white space at the end of
// the message has to be removed too: the template would have removed it, had the mark not
// followed.

const (
	prefillMark = "CONTINUE_FINAL_MESSAGE_TAG"
	// There are two spaces because some templates trim and then write one of their own.
	prefillTail = "  "
)

// prefill renders the conversation up to the end of its last message.
func (r *Renderer) prefill(t *compiled, vars *jinja.Dict, c *conversation, in *Input) (string, error) {
	mark := c.freeMark()
	text, marked := c.marked(mark + prefillTail)
	if marked == nil {
		return "", &Error{textNoText, ErrContinue}
	}
	vars.Set("messages", marked)
	out, err := r.run(t, vars, in)
	if err != nil {
		return "", err
	}
	at := strings.LastIndex(out, mark)
	if at < 0 || !strings.Contains(out, strings.TrimSpace(text)) {
		return "", &Error{textContinue, ErrContinue}
	}
	// A template may write the message more than once. The last time counts.
	head := strings.NewReplacer(mark+prefillTail, "", mark, "").Replace(out[:at])
	if strings.HasPrefix(out[at+len(mark):], prefillTail) {
		return head, nil
	}
	// If the message is only white space, there is nothing of it before the mark that the
	// template could have kept: the text there is the template's own.
	if body := strings.TrimRightFunc(text, unicode.IsSpace); body != "" {
		head = strings.TrimSuffix(head, text[len(body):])
	}
	return head, nil
}

// freeMark returns a mark that occurs in none of the messages. If the usual one does, a
// hash of all messages is appended to it, because no text contains its own hash.
func (c *conversation) freeMark() string {
	taken, hash := false, sha256.New()
	for _, d := range c.dicts {
		content := contentOf(d.(*jinja.Dict))
		taken = taken || strings.Contains(content, prefillMark)
		hash.Write([]byte(content))
	}
	if !taken {
		return prefillMark
	}
	return prefillMark + strings.ToUpper(hex.EncodeToString(hash.Sum(nil)))
}

// marked returns the text of the last message, or of its last part if it has several, and
// the messages with the mark after that text. marked is nil if the message has no text.
func (c *conversation) marked(mark string) (text string, marked *jinja.List) {
	content, _ := c.last.Get("content")
	last := clone(c.last)
	switch content := content.(type) {
	case string:
		text = content
		last.Set("content", text+mark)
	case *jinja.List:
		n := content.Len()
		if n == 0 {
			return "", nil
		}
		part := clone(content.At(n - 1).(*jinja.Dict))
		v, _ := part.Get("text")
		text = v.(string)
		part.Set("text", text+mark)
		parts := make([]jinja.Value, n)
		for i := range n - 1 {
			parts[i] = content.At(i)
		}
		parts[n-1] = part
		last.Set("content", jinja.NewList(parts...))
	}
	dicts := append([]jinja.Value(nil), c.dicts...)
	dicts[len(dicts)-1] = last
	return text, jinja.NewList(dicts...)
}

func clone(d *jinja.Dict) *jinja.Dict {
	out := jinja.NewDict(d.Len())
	out.Update(d)
	return out
}
