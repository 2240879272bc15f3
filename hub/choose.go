package hub

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
)

// DefaultVariant is which GGUF file of a repository is meant where nothing is said.
const DefaultVariant = "Q4_K_M"

const (
	indexName   = "model.safetensors.index.json"
	weightsName = "model.safetensors"
	configName  = "config.json"
)

// vocabularies are the files of which a model needs one, in one of the forms that tokenizers are
// stored in.
var vocabularies = []string{"tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model", "vocab.json", "vocab.txt"}

// smallFiles are the files that may be needed beside the weights: configurations, tokenizers and
// chat templates, and quantization_config in the files of older tools.
var smallFiles = append([]string{
	configName, "generation_config.json", "quantize_config.json", "quant_config.json", "hf_quant_config.json",
	"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt",
	"chat_template.jinja", "chat_template.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
}, vocabularies...)

// noted are the files whose absence is noted in the cache: those for which transformers asks the
// hub each time otherwise.
var noted = []string{"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
	"chat_template.jinja", "chat_template.json", weightsName, indexName}

// isSmall tells whether a file is one of smallFiles, or one of several chat templates.
func isSmall(name string) bool {
	return slices.Contains(smallFiles, name) || path.Dir(name) == "additional_chat_templates" && path.Ext(name) == ".jinja" ||
		path.Dir(name) == "." && path.Ext(name) == ".tiktoken" || moduleConfig.MatchString(name)
}

// moduleConfig and moduleWeights are the files of modules that follow a network in a repository of
// sentence-transformers, in folders such as 1_Pooling and 2_Dense.
var (
	moduleConfig  = regexp.MustCompile(`^\d+_[A-Za-z]+/config\.json$`)
	moduleWeights = regexp.MustCompile(`^\d+_[A-Za-z]+/model\.safetensors$`)
)

// isGGUF tells whether a name is that of a GGUF file.
func isGGUF(name string) bool { return strings.EqualFold(path.Ext(name), ".gguf") }

// A plan says which files of a repository a model needs.
type plan struct {
	first []string // small files, in the order in which they are fetched
	index string   // one of them: the names of the shards are in it; ""
	large []string
	gguf  string // the first file of a model in GGUF; "": a folder
}

// choose decides what is needed of the files of a repository. part says of what.
func choose(ref Reference, files map[string]remoteFile, part Part) (plan, error) {
	names := slices.Sorted(maps.Keys(files))
	ggufs := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !isModelGGUF(n) })
	_, single := files[weightsName]
	_, sharded := files[indexName]
	folder := single || sharded
	switch {
	case part == Tokenizer:
		return chooseTokenizer(ref, names)
	case ref.Variant != "" || !folder && len(ggufs) > 0:
		return chooseGGUF(ref, ggufs)
	case !folder:
		return plan{}, noWeights(ref, names)
	}
	if _, ok := files[configName]; !ok {
		return plan{}, fmt.Errorf("%s has %s, but no %s, without which its network is unknown", ref.Repo, weightsName, configName)
	}
	p := plan{}
	for _, name := range names {
		if isSmall(name) || moduleWeights.MatchString(name) {
			p.first = append(p.first, name)
		}
	}
	if sharded {
		p.index = indexName
		p.first = append(p.first, indexName)
	} else {
		p.large = []string{weightsName}
	}
	return p, nil
}

func chooseTokenizer(ref Reference, names []string) (plan, error) {
	p := plan{}
	for _, name := range names {
		if isSmall(name) {
			p.first = append(p.first, name)
		}
	}
	if !slices.ContainsFunc(p.first, func(n string) bool { return slices.Contains(vocabularies, n) }) {
		return p, fmt.Errorf("%s has no tokenizer: none of %s is there", ref.Repo, strings.Join(vocabularies, ", "))
	}
	return p, nil
}

// noWeights explains that a repository has no weights that can be read.
func noWeights(ref Reference, names []string) error {
	var others []string
	for _, name := range names {
		switch path.Ext(name) {
		case ".bin", ".pth", ".pt", ".onnx", ".h5", ".msgpack", ".safetensors", ".gguf", ".tflite", ".ckpt":
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return fmt.Errorf("%s has no weights of a language model: neither %s nor a .gguf file", ref.Repo, weightsName)
	}
	return fmt.Errorf("%s has no weights that weir reads, %s or a .gguf file: it has %s", ref.Repo, weightsName, some(others))
}

// some lists a few of some names.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// split is the end of the name of a file of a split GGUF model (llama.cpp, llama_split_path).
var split = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(?i:\.gguf)$`)

// ggufType is the type in the name of a GGUF file, as llama.cpp's tools and those who publish
// models write it: model-Q4_K_M.gguf, model.IQ4_XS.gguf, Model-UD-Q4_K_XL.gguf, model-bf16.gguf.
var ggufType = regexp.MustCompile(`(?i)(?:^|[-._/])((?:UD-)?(?:I?Q[0-9]_[0-9A-Z_]+|I?Q[0-9]|TQ[0-9]_[0-9]|B?F16|F32|MXFP4(?:_MOE)?|NVFP4))$`)

// isModelGGUF tells whether a name is that of a GGUF file with a model of its own: no projector of
// a vision model and no data for quantization.
func isModelGGUF(name string) bool {
	base := strings.ToLower(path.Base(name))
	return isGGUF(name) && !strings.Contains(base, "mmproj") && !strings.Contains(base, "imatrix")
}

// A variant is one model among the GGUF files of a repository.
type variant struct {
	label string   // its type, or its name without an ending
	files []string // one, or all of a split model in their order
}

// variants groups GGUF files to models. A split model that lacks a file is left out; the first
// such is in broken.
func variants(names []string) (list []variant, broken string) {
	sets := map[string][]string{}
	for _, name := range names {
		m := split.FindStringSubmatch(name)
		if m == nil {
			list = append(list, variant{label(strings.TrimSuffix(name, path.Ext(name))), []string{name}})
			continue
		}
		key := m[1] + "/" + m[3]
		sets[key] = append(sets[key], name) // names are sorted, so the set is
	}
	for _, key := range slices.Sorted(maps.Keys(sets)) {
		set := sets[key]
		m := split.FindStringSubmatch(set[0])
		if count, err := strconv.Atoi(m[3]); err != nil || count != len(set) || m[2] != "00001" {
			broken = fmt.Sprintf("%s is one of %s files, of which %d are there", set[0], m[3], len(set))
			continue
		}
		list = append(list, variant{label(m[1]), set})
	}
	slices.SortFunc(list, func(a, b variant) int { return strings.Compare(a.label+"\x00"+a.files[0], b.label+"\x00"+b.files[0]) })
	return list, broken
}

// label is the type in a name without its ending, in capital letters, or the name itself.
func label(name string) string {
	if m := ggufType.FindStringSubmatch(name); m != nil {
		return strings.ToUpper(m[1])
	}
	return path.Base(name)
}

// chooseGGUF finds the model that ref.Variant means.
func chooseGGUF(ref Reference, names []string) (plan, error) {
	list, broken := variants(names)
	if len(list) == 0 && broken != "" {
		return plan{}, fmt.Errorf("%s: a split model is not complete: %s", ref.Repo, broken)
	}
	if len(list) == 0 {
		return plan{}, fmt.Errorf("%s has no GGUF file, so there is no %s to choose", ref.Repo, ref.Variant)
	}
	found := match(list, ref.Variant)
	switch {
	case len(found) == 1:
		return plan{large: found[0].files, gguf: found[0].files[0]}, nil
	case len(found) > 1:
		var files []string
		for _, v := range found {
			files = append(files, v.files[0])
		}
		return plan{}, fmt.Errorf("%s has several models that %s may mean: choose one by the name of its file, as in %s:%s; there are %s",
			ref.Repo, wanted(ref), ref.Repo, files[0], some(files))
	}
	var labels []string
	for _, v := range list {
		if !slices.Contains(labels, v.label) {
			labels = append(labels, v.label)
		}
	}
	if broken != "" {
		broken = "; a split model is not complete: " + broken
	}
	return plan{}, fmt.Errorf("%s has no %s: choose one of its GGUF files, as in %s:%s; there are %s%s",
		ref.Repo, wanted(ref), ref.Repo, labels[0], some(labels), broken)
}

func wanted(ref Reference) string {
	if ref.Variant == "" {
		return DefaultVariant + ", which is taken where nothing is said"
	}
	return ref.Variant
}

// match finds the models that a variant may mean. Where nothing is said, the only one is meant. A
// name of a file is more than a type, and a type more than the same one of another maker (UD-).
func match(list []variant, want string) (found []variant) {
	if want == "" {
		if len(list) == 1 {
			return list
		}
		want = DefaultVariant
	}
	for _, same := range []func(v variant) bool{
		func(v variant) bool { return slices.Contains(v.files, want) },
		func(v variant) bool {
			return slices.ContainsFunc(v.files, func(f string) bool { return path.Base(f) == want })
		},
		func(v variant) bool { return strings.EqualFold(v.label, want) },
		func(v variant) bool { return strings.EqualFold(strings.TrimPrefix(v.label, "UD-"), want) },
	} {
		for _, v := range list {
			if same(v) {
				found = append(found, v)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// maxIndex is the size of the largest index of shards.
const maxIndex = 64 << 20

// shards reads the names of the files that hold the weights from an index. known tells whether the
// repository has a file.
func shards(text []byte, known func(name string) bool) ([]string, error) {
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := jsontext.Decode(text, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", indexName, err)
	}
	set := map[string]bool{}
	for tensor, file := range index.Map {
		if set[file] {
			continue
		}
		if err := checkName(file); err != nil {
			return nil, fmt.Errorf("%s: weight_map: the file of %s %w", indexName, clip(tensor), err)
		}
		if !known(file) {
			return nil, fmt.Errorf("%s: weight_map: the file of %s, %s, does not exist", indexName, clip(tensor), clip(file))
		}
		set[file] = true
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("%s: weight_map names no files", indexName)
	}
	return slices.Sorted(maps.Keys(set)), nil
}
