package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// sign signs a request without a query, by Signature Version 4 of AWS for the service s3: an HMAC of a canonical
// text of the request, with a key that is derived of the secret for one day, region and service
// (docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
func (s *Sink) sign(req *http.Request, body []byte, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	day := stamp[:8]
	sum := hexSum(body)
	req.Header.Set("X-Amz-Date", stamp)
	req.Header.Set("X-Amz-Content-Sha256", sum)
	if s.token != "" {
		req.Header.Set("X-Amz-Security-Token", s.token)
	}
	names := []string{"host"}
	for name := range req.Header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(req.Method + "\n" + req.URL.EscapedPath() + "\n\n")
	for _, name := range names {
		value := req.Host
		if name != "host" {
			value = strings.Join(req.Header.Values(name), ",")
		}
		b.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	signed := strings.Join(names, ";")
	b.WriteString("\n" + signed + "\n" + sum)

	scope := day + "/" + s.region + "/s3/aws4_request"
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hexSum([]byte(b.String()))
	key := []byte("AWS4" + s.secret)
	for _, part := range []string{day, s.region, "s3", "aws4_request", text} {
		key = mac(key, part)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.key+"/"+scope+",SignedHeaders="+signed+",Signature="+hex.EncodeToString(key))
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// escape writes the name of an object as it is signed: all but letters, digits and -._~/ in hexadecimal.
func escape(name string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}
