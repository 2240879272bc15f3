package model

import (
	"math"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

// rawRope is the part of config.json about rotary embeddings, in the spelling
// of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters).
type rawRope struct {
	RopeTheta                     *float64        `json:"rope_theta"`
	RopeScaling                   *ropeParameters `json:"rope_scaling"`
	RopeParameters                *ropeParameters `json:"rope_parameters"`
	PartialRotaryFactor           *float64        `json:"partial_rotary_factor"`
	OriginalMaxPositionEmbeddings *float64        `json:"original_max_position_embeddings"`

	from *origin // for messages
}

type ropeParameters struct {
	RopeType            string   `json:"rope_type"`
	Type                string   `json:"type"` // the older name
	RopeTheta           *float64 `json:"rope_theta"`
	Factor              *float64 `json:"factor"`
	OriginalMax         *float64 `json:"original_max_position_embeddings"`
	LowFreqFactor       *float64 `json:"low_freq_factor"`
	HighFreqFactor      *float64 `json:"high_freq_factor"`
	AttentionFactor     *float64 `json:"attention_factor"`
	BetaFast            *float64 `json:"beta_fast"`
	BetaSlow            *float64 `json:"beta_slow"`
	MScale              *float64 `json:"mscale"`
	MScaleAllDim        *float64 `json:"mscale_all_dim"`
	Truncate            *bool    `json:"truncate"`
	PartialRotaryFactor *float64 `json:"partial_rotary_factor"`

	Alpha       *float64  `json:"alpha"`
	MixedB      *float64  `json:"mixed_b"`
	Beta        *float64  `json:"llama_4_scaling_beta"`
	ShortFactor []float64 `json:"short_factor"`
	LongFactor  []float64 `json:"long_factor"`
	ShortScale  *float64  `json:"short_mscale"`
	LongScale   *float64  `json:"long_mscale"`

	// Parameters per kind of layer, which only families with two kinds of
	// positions use.
	FullAttention    jsontext.RawMessage `json:"full_attention"`
	SlidingAttention jsontext.RawMessage `json:"sliding_attention"`
}

var ropeTypes = []string{"default", "linear", "llama3", "yarn"}

// parameters resolves the spellings as transformers does (modeling_rope_utils.py,
// convert_rope_params_to_dict).
func (r *rawRope) parameters() (p ropeParameters) {
	if r.RopeParameters != nil {
		p = *r.RopeParameters
	}
	if s := r.RopeScaling; s != nil && (s.RopeType != "" || s.Type != "" || s.Factor != nil) { // {} counts as none
		p = *s
	}
	return p
}

// originalLength is the length of sequences before any scaling. A length outside of
// the rope's own parameters wins over one inside.
func (r *rawRope) originalLength(p *ropeParameters, maxPositions int) (float64, error) {
	original := or(r.OriginalMaxPositionEmbeddings, or(p.OriginalMax, float64(maxPositions)))
	if !(original >= 1 && original <= maxSize) {
		return 0, r.from.bad("%s %v is not in [1, %d]", r.from.name("original_max_position_embeddings"), original, maxSize)
	}
	return original, nil
}

// rope returns the table and the longest sequence that it serves. The types
// "dynamic" and "longrope" are refused: they change all angles with the length of the
// sequence, so a cached key would not keep its meaning.
func (r *rawRope) rope(dim, maxPositions int) (Rope, int, error) {
	p := r.parameters()
	kind := p.kind()
	if p.FullAttention != nil || p.SlidingAttention != nil {
		return Rope{}, 0, r.from.unsupported("rope_parameters", "per kind of layer", "one set for all layers")
	}
	if f := or(p.PartialRotaryFactor, or(r.PartialRotaryFactor, 1)); f != 1 {
		return Rope{}, 0, r.from.unsupported("partial_rotary_factor", f, "1")
	}
	theta := or(p.RopeTheta, or(r.RopeTheta, 10_000))
	if !(theta > 1 && theta < math.MaxFloat32) {
		return Rope{}, 0, r.from.bad("%s %v is not above 1", r.from.name("rope_theta"), theta)
	}
	original, err := r.originalLength(&p, maxPositions)
	if err != nil {
		return Rope{}, 0, err
	}
	factor := or(p.Factor, 0)
	if kind == "yarn" && p.Factor == nil {
		factor = float64(maxPositions) / original
	}
	if !slices.Contains(ropeTypes, kind) {
		return Rope{}, 0, r.from.unsupported("rope type", kind, strings.Join(ropeTypes, ", "))
	}
	if kind != "default" && !(factor >= 1 && factor <= maxSize) {
		return Rope{}, 0, r.from.bad("the factor of rope type %q is %v or missing, not in [1, %d]", kind, factor, maxSize)
	}
	rope := Rope{InvFreq: inverseFrequencies(theta, dim), Scale: 1}
	switch kind {
	case "default":
	case "linear":
		for i := range rope.InvFreq {
			rope.InvFreq[i] /= float32(factor)
		}
	case "llama3":
		low, high := or(p.LowFreqFactor, 0), or(p.HighFreqFactor, 0)
		if !(low > 0 && high > low && high <= maxSize) {
			return Rope{}, 0, r.from.bad("rope type llama3 needs 0 < low_freq_factor < high_freq_factor, not %v and %v", low, high)
		}
		llama3(rope.InvFreq, factor, low, high, original)
	case "yarn":
		if err := p.yarn(&rope, r.from, theta, factor, original, dim); err != nil {
			return Rope{}, 0, err
		}
		maxPositions = max(maxPositions, min(maxSize, int(factor*original)))
	}
	return rope, maxPositions, nil
}

func or(p *float64, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// The tables are made in float32 with the roundings of the reference, since an
// angle is a position times a frequency: at position 100,000 one unit in the
// last place is a hundredth of a radian. float32() keeps the compiler from
// fusing a product into a sum.

// inverseFrequencies is 1 / theta^(2i/dim).
func inverseFrequencies(theta float64, dim int) []float32 {
	inv := make([]float32, dim/2)
	for i := range inv {
		inv[i] = 1 / powers(theta, dim, i)
	}
	return inv
}

func powers(theta float64, dim, i int) float32 {
	exponent := float32(2*i) / float32(dim)
	return float32(math.Pow(float64(float32(theta)), float64(exponent)))
}

// llama3 (Llama 3.1, section "RoPE scaling"; transformers,
// _compute_llama3_parameters) keeps short waves, stretches long ones by factor
// and goes smoothly from one to the other between.
func llama3(inv []float32, factor, low, high, original float64) {
	for i, f := range inv {
		wave := float32(2*math.Pi) * (1 / f)
		switch {
		case wave < float32(original/high):
		case wave > float32(original/low):
			inv[i] = f / float32(factor)
		default:
			smooth := (float32(1/wave*float32(original)) - float32(low)) / float32(high-low)
			inv[i] = float32((1-smooth)*f/float32(factor)) + float32(smooth*f)
		}
	}
}

// yarn (Peng et al., "YaRN", 2023, section 3.2; transformers,
// _compute_yarn_parameters) keeps dimensions that turn often within the
// original length, stretches those that turn less than once, and ramps between;
// sin and cos grow with the logarithm of the factor.
func (p *ropeParameters) yarn(rope *Rope, from *origin, theta, factor, original float64, dim int) error {
	fast, slow := or(p.BetaFast, 0), or(p.BetaSlow, 0)
	if fast == 0 { // like Python's "or", which takes 0 for not given
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	if !(slow > 0 && fast >= slow && fast <= maxSize) {
		return from.bad("rope type yarn needs 0 < beta_slow <= beta_fast, not %v and %v", slow, fast)
	}
	// the dimension that makes this many turns within the original length
	turns := func(n float64) float64 {
		return float64(dim) * math.Log(original/(n*2*math.Pi)) / (2 * math.Log(theta))
	}
	first, last := turns(fast), turns(slow)
	if p.Truncate == nil || *p.Truncate {
		first, last = math.Floor(first), math.Ceil(last)
	}
	first, last = max(first, 0), min(last, float64(dim-1))
	if first == last {
		last += 0.001
	}
	for i := range rope.InvFreq {
		ramp := (float32(i) - float32(first)) / float32(last-first)
		keep := 1 - min(max(ramp, 0), 1)
		stretched := 1 / (float32(factor) * powers(theta, dim, i))
		rope.InvFreq[i] = float32(stretched*(1-keep)) + float32(rope.InvFreq[i]*keep)
	}
	growth := func(m float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(factor) + 1
	}
	scale := growth(1)
	if m, all := or(p.MScale, 0), or(p.MScaleAllDim, 0); m != 0 && all != 0 {
		scale = growth(m) / growth(all)
	}
	scale = or(p.AttentionFactor, scale)
	if !(scale > 0 && scale <= maxSize) {
		return from.bad("rope type yarn scales attention by %v, not a positive number", scale)
	}
	rope.Scale = float32(scale)
	return nil
}
