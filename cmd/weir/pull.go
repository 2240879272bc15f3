package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"weir/hub"
	"weir/internal/jsontext"
)

// nameOnHub says what weir pull, list and rm take.
const nameOnHub = "org/name, org/name@revision, or org/name:QUANT for one type of a repository with GGUF files"

const pullAbout = "Downloads a model from the Hugging Face Hub, or what is missing of it, and prints its path: a folder, or the GGUF file. MODEL is " + nameOnHub + ". " +
	"Of a repository in safetensors the configuration, the tokenizer, chat templates and the weights are downloaded; of one in GGUF the file of type " + hub.DefaultVariant + " or QUANT.\n\n" +
	"The cache is that of the Python library huggingface_hub, so other tools see the same files. A download that was interrupted goes on where it was. " +
	"HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_HUB_OFFLINE and the variables for proxies mean what they mean there."

func setupPull(f *flagSet, env *environment) action {
	var o hubOptions
	verify := false
	o.bind(f)
	f.BoolVar(&verify, "verify", false, "also read all files that are there already, and download those again whose hash is wrong")
	return func(args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("pull takes one model: %s", nameOnHub)}
		}
		log, err := newLog(env.errOut, "warn")
		if err != nil {
			return err
		}
		p := newPullProgress(env.errOut, nil)
		m, err := o.download(args[0], hub.Options{Fresh: true, Verify: verify, Progress: p.show}, env.getenv, log)
		p.end()
		if err != nil {
			return withoutPath(err)
		}
		_, err = fmt.Fprintln(env.out, m.Path())
		return err
	}
}

// withoutPath takes off what download says about paths, which pull does not take.
func withoutPath(err error) error {
	if inner := errors.Unwrap(err); inner != nil && strings.Contains(err.Error(), " is no path on this machine") {
		return inner
	}
	return err
}

func setupList(f *flagSet, env *environment) action {
	var o hubOptions
	asJSON := false
	o.bindCache(f)
	f.BoolVar(&asJSON, "json", false, "print a JSON array")
	return func(args []string) error {
		if err := noArguments("list", args); err != nil {
			return err
		}
		h, err := o.open(env.getenv, nil)
		if err != nil {
			return err
		}
		list, err := h.List()
		if err != nil {
			return err
		}
		if asJSON {
			return listJSON(env.out, list)
		}
		return listTable(env.out, list)
	}
}

// listTable prints a line for each commit.
func listTable(out io.Writer, list []hub.Revision) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tREVISION\tSIZE\tFILES\tLAST USED")
	for _, r := range list {
		files := fmt.Sprint(r.Files)
		if r.Broken > 0 {
			files += fmt.Sprintf(", %d missing", r.Broken)
		}
		revision := r.Commit[:min(len(r.Commit), 12)]
		if len(r.Refs) > 0 {
			revision = strings.Join(r.Refs, ", ") + " (" + revision + ")"
		}
		used := "-"
		if !r.Used.IsZero() {
			used = r.Used.Format("2006-01-02 15:04")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Repo, revision, decimal(r.Size), files, used)
	}
	return w.Flush()
}

// listedRevision is an element of what list --json prints.
type listedRevision struct {
	Repo     string    `json:"repo"`
	Commit   string    `json:"commit"`
	Refs     []string  `json:"refs"`
	Size     int64     `json:"size"` // bytes
	Files    int       `json:"files"`
	Missing  int       `json:"missing"`
	LastUsed time.Time `json:"last_used"`
	Folder   string    `json:"folder"`
}

func listJSON(out io.Writer, list []hub.Revision) error {
	rows := []listedRevision{}
	for _, r := range list {
		rows = append(rows, listedRevision{r.Repo, r.Commit, append([]string{}, r.Refs...), r.Size, r.Files, r.Broken, r.Used.UTC(), r.Folder})
	}
	text, err := jsontext.EncodeIndent(rows, "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

func setupRemove(f *flagSet, env *environment) action {
	var o hubOptions
	yes := false
	o.bindCache(f)
	f.BoolVar(&yes, "yes", false, "do not ask")
	return func(args []string) error {
		if len(args) == 0 {
			return usageError{fmt.Errorf("rm takes the names of models: %s", nameOnHub)}
		}
		h, err := o.open(env.getenv, nil)
		if err != nil {
			return err
		}
		in := bufio.NewReader(env.in)
		for _, name := range args {
			ref, err := o.reference(name)
			if err != nil {
				return err
			}
			if err := removeModel(h, ref, yes, in, env); err != nil {
				return fmt.Errorf("%s: %w", ref, err)
			}
		}
		return nil
	}
}

// removeModel deletes one model, after a question unless yes.
func removeModel(h *hub.Hub, ref hub.Reference, yes bool, in *bufio.Reader, env *environment) error {
	x, err := h.PlanRemoval(ref)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s: %d revisions", ref.Repo, len(x.Commits))
	switch {
	case len(x.Files) > 0:
		what = fmt.Sprintf("%s: %s", ref.Repo, strings.Join(x.Files, ", "))
	case ref.Revision != "" && len(x.Commits) == 1:
		what = fmt.Sprintf("%s: revision %s", ref.Repo, x.Commits[0])
	}
	if !yes {
		if tty, ok := env.in.(*os.File); ok && !isTerminal(tty) {
			return errors.New("rm asks before it deletes: give --yes where nobody can answer")
		}
		fmt.Fprintf(env.errOut, "Delete %s, and free %s? [y/N] ", what, decimal(x.Size))
		answer, _ := in.ReadString('\n')
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			return errors.New("nothing was deleted")
		}
	}
	if err := h.Remove(x); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.out, "deleted %s, %s freed\n", what, decimal(x.Size))
	return err
}
