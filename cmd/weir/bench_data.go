package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"weir/bench"
)

// benchData are the flags that say where the prompts of a load come from.
type benchData struct {
	name, path          string
	noShuffle           bool
	inputLen, outputLen int // for whichever data set is chosen; 0: its own flags

	random        bench.Random
	prefix        bench.PrefixRepetition
	sonnet        bench.Sonnet
	conversations bench.Conversations
	structured    bench.Structured
	customLen     int
	shareLen      int
	burstModel    string
	traceUnit     float64 // seconds
	traceBlock    int
	selfTimed     bool
}

// The data sets, with vLLM's names where it has them.
const (
	dataRandom, dataCustom, dataShareGPT, dataSonnet, dataPrefix = "random", "custom", "sharegpt", "sonnet", "prefix_repetition"
	dataTurns, dataStructured, dataTrace, dataBurst              = "multi-turn", "structured", "timed_trace", "burstgpt"
	dataPrompts, dataMooncake                                    = "prompts", "mooncake" // other names of custom and timed_trace
)

func (o *benchData) bind(f *flagSet) {
	o.random, o.prefix, o.sonnet = bench.DefaultRandom(), bench.DefaultPrefixRepetition(), bench.DefaultSonnet()
	o.conversations, o.structured = bench.DefaultConversations(), bench.DefaultStructured()
	f.group("Prompts")
	f.oneOf(&o.name, "dataset-name", "where prompts come from: random words; sonnets that are made up; prompts that share prefixes; conversations; constrained answers; the file of --dataset-path as custom (prompts is the same), sharegpt, burstgpt, timed_trace (mooncake is the same)",
		dataRandom, dataCustom, dataPrompts, dataShareGPT, dataSonnet, dataPrefix, dataTurns, dataStructured, dataTrace, dataMooncake, dataBurst)
	f.StringVar(&o.path, "dataset-path", "", "`file` of the data set: lines of {\"prompt\": … or \"messages\": …, \"output_len\": …, \"tools\": …, \"response_format\": …}; ShareGPT's JSON; BurstGPT's CSV; lines of {\"timestamp\": …} with a prompt, or with Mooncake's input_length, output_length and hash_ids; lines of poems for sonnet")
	f.BoolVar(&o.noShuffle, "disable-shuffle", false, "take the prompts of a file in its order, not in one that the seed decides")
	f.IntVar(&o.inputLen, "input-len", 0, "`tokens` of a prompt, of random, sonnet, multi-turn and structured (default: the flag of the data set)")
	f.IntVar(&o.outputLen, "output-len", 0, "`tokens` of an answer, of every data set but traces (default: the flag of the data set)")
	f.IntVar(&o.random.InputLen, "random-input-len", o.random.InputLen, "approximate length of a random prompt in `tokens`; it consists of words that are one token in nearly every vocabulary")
	f.IntVar(&o.random.OutputLen, "random-output-len", o.random.OutputLen, "length of the answer to a random prompt in `tokens`")
	f.IntVar(&o.random.PrefixLen, "random-prefix-len", 0, "`tokens` that all random prompts begin with, in addition to their own")
	f.Float64Var(&o.random.RangeRatio, "random-range-ratio", 0, "`r` in [0, 1): lengths are drawn from [len*(1-r), len*(1+r)]")
	f.IntVar(&o.customLen, "custom-output-len", 256, "length of the answer in `tokens` where a line of the file does not say it")
	f.IntVar(&o.shareLen, "sharegpt-output-len", 0, "length of the answer in `tokens` (default: that of the answer in the file, counted by the server's /tokenize or estimated)")
	f.IntVar(&o.sonnet.InputLen, "sonnet-input-len", o.sonnet.InputLen, "approximate length of a prompt of sonnets in `tokens`")
	f.IntVar(&o.sonnet.OutputLen, "sonnet-output-len", o.sonnet.OutputLen, "length of the answer in `tokens`")
	f.IntVar(&o.sonnet.PrefixLen, "sonnet-prefix-len", o.sonnet.PrefixLen, "`tokens` that all prompts of sonnets begin with")
	f.IntVar(&o.prefix.PrefixLen, "prefix-repetition-prefix-len", o.prefix.PrefixLen, "`tokens` of a prefix")
	f.IntVar(&o.prefix.SuffixLen, "prefix-repetition-suffix-len", o.prefix.SuffixLen, "`tokens` after the prefix")
	f.IntVar(&o.prefix.Prefixes, "prefix-repetition-num-prefixes", o.prefix.Prefixes, "`number` of prefixes, which begin equally many prompts")
	f.IntVar(&o.prefix.OutputLen, "prefix-repetition-output-len", o.prefix.OutputLen, "length of the answer in `tokens`")
	f.IntVar(&o.conversations.Turns, "multi-turn-num-turns", o.conversations.Turns, "`number` of messages of the user in a conversation; --num-prompts counts all of them")
	f.IntVar(&o.conversations.SystemLen, "multi-turn-prefix-len", o.conversations.SystemLen, "`tokens` that all conversations begin with")
	f.IntVar(&o.conversations.FirstLen, "multi-turn-first-len", o.conversations.FirstLen, "further `tokens` of the first message")
	f.IntVar(&o.conversations.TurnLen, "multi-turn-turn-len", o.conversations.TurnLen, "`tokens` of each further message")
	f.IntVar(&o.conversations.OutputLen, "multi-turn-output-len", o.conversations.OutputLen, "length of each answer in `tokens`")
	f.DurationVar(&o.conversations.Think, "multi-turn-think-time", o.conversations.Think, "mean time between an answer and the next message; the times follow an exponential distribution")
	f.BoolVar(&o.conversations.Even, "multi-turn-even-think-time", false, "make all these times the same")
	f.oneOf(&o.structured.Kind, "structured-kind", "how answers are constrained: one JSON schema for all requests, a schema of its own for each, a regular expression, a choice, a grammar, or tools that must be called", bench.StructuredKinds()...)
	f.IntVar(&o.structured.InputLen, "structured-input-len", o.structured.InputLen, "approximate length of a prompt in `tokens`")
	f.IntVar(&o.structured.OutputLen, "structured-output-len", o.structured.OutputLen, "largest length of the answer in `tokens`")
	f.Float64Var(&o.structured.Ratio, "structured-output-ratio", o.structured.Ratio, "`share` of the requests that have a constraint, in [0, 1]")
	f.StringVar(&o.burstModel, "burstgpt-model", "GPT-4", "`model` whose rows of BurstGPT are taken; \"\" takes all")
	f.Float64Var(&o.traceUnit, "timed-trace-sec-multiplier", 0.001, "`seconds` in a unit of the timestamps of timed_trace")
	f.IntVar(&o.traceBlock, "timed-trace-chunk-hash-size", 512, "`tokens` of the part of a prompt that a hash of timed_trace stands for")
	f.BoolVar(&o.selfTimed, "self-timed", true, "send the requests of timed_trace and burstgpt at the times of the trace; with --no-self-timed, at those that the flags of the load say")
}

// lengths lets --input-len and --output-len count for the data set that is chosen.
func (o *benchData) lengths() {
	set := func(n int, fields ...*int) {
		for _, field := range fields {
			if n > 0 {
				*field = n
			}
		}
	}
	set(o.inputLen, &o.random.InputLen, &o.sonnet.InputLen, &o.structured.InputLen, &o.conversations.FirstLen)
	set(o.outputLen, &o.random.OutputLen, &o.sonnet.OutputLen, &o.structured.OutputLen, &o.conversations.OutputLen, &o.prefix.OutputLen, &o.customLen, &o.shareLen)
}

// choose makes the data set of a load, and sets what follows from it. counted says that the number of requests
// was given.
func (o *benchData) choose(c *bench.ServeConfig, counted bool) (err error) {
	o.lengths()
	switch o.name {
	case dataRandom, dataPrefix, dataTurns, dataStructured:
		if o.path != "" {
			return fmt.Errorf("--dataset-path is a file for --dataset-name custom, sharegpt, sonnet, timed_trace or burstgpt, not for %s", o.name)
		}
	}
	var trace bench.Trace
	switch o.name {
	case dataRandom:
		c.Data, c.IgnoreEOS = o.random, true // as in vLLM
	case dataPrefix:
		c.Data = o.prefix
	case dataTurns:
		c.Data = o.conversations
	case dataStructured:
		c.Data = o.structured
	case dataSonnet:
		c.Data, err = o.poems()
	case dataCustom, dataPrompts:
		list := bench.List{Shuffle: !o.noShuffle}
		list.Prompts, err = readData(o.path, func(r io.Reader) ([]bench.Prompt, error) { return bench.ReadPrompts(r, o.customLen) })
		c.Data = list
	case dataShareGPT:
		var share bench.ShareGPT
		share, err = readData(o.path, bench.ReadShareGPT)
		share.OutputLen, share.Shuffle = o.shareLen, !o.noShuffle
		c.Data = share
	case dataBurst:
		trace, err = readData(o.path, func(r io.Reader) (bench.Trace, error) { return bench.ReadBurstGPT(r, o.burstModel) })
	default:
		trace, err = readData(o.path, func(r io.Reader) (bench.Trace, error) {
			return bench.ReadTrace(r, time.Duration(o.traceUnit*float64(time.Second)))
		})
	}
	if err == nil && trace.Len() > 0 {
		trace.BlockSize = o.traceBlock
		c.Data, c.SelfTimed, c.IgnoreEOS = trace, o.selfTimed, true
		if !counted {
			c.NumPrompts = trace.Len()
		}
	}
	return err
}

// poems are the lines of a file, or sonnets that are made up.
func (o *benchData) poems() (bench.Data, error) {
	if o.path == "" {
		return o.sonnet, nil
	}
	text, err := readData(o.path, io.ReadAll)
	if err == nil && len(strings.TrimSpace(string(text))) == 0 {
		err = errors.New("--dataset-path: the file has no lines")
	}
	o.sonnet.Lines = strings.SplitAfter(string(text), "\n")
	return o.sonnet, err
}

// readData reads the file of --dataset-path.
func readData[T any](path string, read func(io.Reader) (T, error)) (v T, err error) {
	if path == "" {
		return v, errors.New("--dataset-path: this data set is a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return v, fmt.Errorf("--dataset-path: %w", err)
	}
	defer f.Close()
	return read(f)
}
