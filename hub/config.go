package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/internal/plainfile"
)

// Config says where the hub and the cache are. [FromEnvironment] fills it in.
type Config struct {
	Endpoint     string        // of the hub: https://huggingface.co
	Cache        string        // folder, such as ~/.cache/huggingface/hub
	Token        string        // "": none
	Offline      bool          // ask the hub nothing
	NoSymlinks   bool          // put files into snapshots instead of links to blobs
	InfoTimeout  time.Duration // how long the hub may take to say what a repository has
	StallTimeout time.Duration // how long a download may give nothing

	Connections int // for each large file
	UserAgent   string
	Log         *slog.Logger
	Transport   http.RoundTripper // nil: the system's network and proxies
}

// Defaults, those of huggingface_hub (constants.py).
const (
	defaultEndpoint = "https://huggingface.co"
	defaultTimeout  = 10 * time.Second
)

// FromEnvironment returns the configuration that the variables of huggingface_hub ask for:
// HF_HOME, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE and XDG_CACHE_HOME; HF_ENDPOINT; HF_TOKEN,
// HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH and HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_OFFLINE and
// TRANSFORMERS_OFFLINE; HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT;
// HF_HUB_DISABLE_SYMLINKS.
func FromEnvironment(getenv func(string) string) (Config, error) {
	c := Config{Endpoint: cmp.Or(getenv("HF_ENDPOINT"), defaultEndpoint), Connections: 4, Log: slog.New(slog.DiscardHandler)}
	home, err := homeFolder(getenv)
	if err != nil {
		return c, err
	}
	c.Cache = expand(cmp.Or(getenv("HF_HUB_CACHE"), getenv("HUGGINGFACE_HUB_CACHE"), filepath.Join(home, "hub")), getenv)
	c.Offline = isTrue(cmp.Or(getenv("HF_HUB_OFFLINE"), getenv("TRANSFORMERS_OFFLINE")))
	c.NoSymlinks = isTrue(getenv("HF_HUB_DISABLE_SYMLINKS"))
	if !isTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		if c.Token, err = token(getenv, home); err != nil {
			return c, err
		}
	}
	if c.InfoTimeout, err = seconds(getenv, "HF_HUB_ETAG_TIMEOUT"); err != nil {
		return c, err
	}
	c.StallTimeout, err = seconds(getenv, "HF_HUB_DOWNLOAD_TIMEOUT")
	return c, err
}

// homeFolder is the folder of everything that the Python library keeps.
func homeFolder(getenv func(string) string) (string, error) {
	if home := getenv("HF_HOME"); home != "" {
		return expand(home, getenv), nil
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return expand(filepath.Join(cache, "huggingface"), getenv), nil
	}
	home := getenv("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", fmt.Errorf("there is no home folder for the cache of the hub, and neither HF_HOME nor HF_HUB_CACHE is set: %w", err)
		}
	}
	return filepath.Join(home, ".cache", "huggingface"), nil
}

// expand replaces ~ at the beginning, and variables, as Python's expanduser and expandvars do.
func expand(path string, getenv func(string) string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		path = getenv("HOME") + rest
	}
	return os.Expand(path, func(name string) string { return cmp.Or(getenv(name), "$"+name) })
}

func isTrue(value string) bool {
	switch strings.ToUpper(value) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

func seconds(getenv func(string) string, name string) (time.Duration, error) {
	value := getenv(name)
	if value == "" {
		return defaultTimeout, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > 1<<20 {
		return 0, fmt.Errorf("%s=%s is not a number of seconds", name, clip(value))
	}
	return cmp.Or(time.Duration(n)*time.Second, defaultTimeout), nil
}

// maxToken is the size of the largest token; those of the hub have 37 bytes.
const maxToken = 4096

// token finds the token where huggingface_hub does (utils/_auth.py): in the environment, then in
// a file.
func token(getenv func(string) string, home string) (string, error) {
	from, text := "HF_TOKEN", cmp.Or(getenv("HF_TOKEN"), getenv("HUGGING_FACE_HUB_TOKEN"))
	if clean(text) == "" {
		from = expand(cmp.Or(getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")), getenv)
		b, err := plainfile.Read(from)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("the token for the hub cannot be read: %w", err)
		}
		text = string(b)
	}
	text = clean(text)
	if len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("what %s holds is not a token of the hub", from)
	}
	return text, nil
}

func clean(token string) string {
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(token))
}

// check completes the configuration and returns the endpoint as an address.
func (c *Config) check() (*url.URL, error) {
	c.Endpoint = strings.TrimRight(c.Endpoint, "/")
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("HF_ENDPOINT=%s is not the address of a hub, such as %s", clip(c.Endpoint), defaultEndpoint)
	}
	if c.Cache, err = filepath.Abs(c.Cache); err != nil {
		return nil, err
	}
	c.InfoTimeout, c.StallTimeout = cmp.Or(c.InfoTimeout, defaultTimeout), cmp.Or(c.StallTimeout, defaultTimeout)
	c.Connections = min(max(c.Connections, 1), maxConnections)
	c.UserAgent = cmp.Or(c.UserAgent, "weir")
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return u, nil
}

// maxConnections bounds the connections for one file.
const maxConnections = 16
