package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"

	"weir/chat/jinja"
)

// A prefill leaves the final message open, for the model to continue. The
// template closes every message, so its rendering has to be cut, and nothing
// in it says where. Looking for the message's text in the rendering fails when
// the text also stands in the template's closing, or is empty. So a mark is
// appended to the message and the cut made where the mark appears, as newer
// versions of transformers do (render_jinja_template). The mark ends in white
// space: where that is gone, the template trims, and the white space at the end
// of the message, which the mark has protected, has to go as well.

const (
	prefillMark = "CONTINUE_FINAL_MESSAGE_TAG"
	// Two spaces, because some templates trim and then put one of their own.
	prefillTail = "  "
)

// prefill renders the conversation up to the end of its last message.
func (r *Renderer) prefill(t *compiled, vars *jinja.Dict, c *conversation) (string, error) {
	mark := c.freeMark()
	text, marked := c.marked(mark + prefillTail)
	if marked == nil {
		return "", &Error{textNoText, ErrContinue}
	}
	vars.Set("messages", marked)
	out, err := r.run(t, vars)
	if err != nil {
		return "", err
	}
	at := strings.LastIndex(out, mark)
	if at < 0 || !strings.Contains(out, strings.TrimSpace(text)) {
		return "", &Error{textContinue, ErrContinue}
	}
	// A template may write the message more than once; the last time counts.
	head := strings.NewReplacer(mark+prefillTail, "", mark, "").Replace(out[:at])
	if strings.HasPrefix(out[at+len(mark):], prefillTail) {
		return head, nil
	}
	// A message of white space alone has nothing that could have protected it
	// from the trimming: what precedes the mark is the template's.
	if body := strings.TrimRightFunc(text, unicode.IsSpace); body != "" {
		head = strings.TrimSuffix(head, text[len(body):])
	}
	return head, nil
}

// freeMark returns a mark that none of the messages holds. Where a message has
// the usual one in it, a hash of all messages makes another: no text can hold
// a hash of itself.
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

// marked returns the text of the last message, the last part's if it has
// several, and the messages with the mark after it; nil if the message has no
// text.
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
