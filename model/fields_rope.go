package model

import (
	"cmp"
	"math"

	"weir/internal/jsontext"
)

// ropeKind says which rotary table is read, and what a family has where config.json says nothing.
type ropeKind struct {
	layers      string  // "full_attention" or "sliding_attention", where there are parameters for each; "": one set
	theta       float64 // 0: 10000
	thetaField  string  // a field with another theta: "": rope_theta
	partial     float64 // 0: 1
	plain       bool    // scalings are not for these layers
	interleaved bool
	exactly     float64 // theta, whatever the fields say; 0: they say it
	whole       bool    // dim is the part that is rotated already
}

// rope adds a rotary table for heads of dim dimensions, and returns its number.
func (f *fields) rope(dim int, k ropeKind) int {
	r := rawRope{from: f.from}
	if f.err != nil {
		return NoRope
	}
	if f.err = unmarshal(f.v, &r); f.err != nil {
		f.bad("%v", f.err)
		return NoRope
	}
	if p := f.ropeOf(k.layers); p != nil {
		r.RopeParameters, r.RopeScaling = p, nil
	}
	if k.thetaField != "" && f.has(k.thetaField) {
		theta := f.float(k.thetaField, 0)
		r.RopeTheta, r.RopeParameters = &theta, nil
	}
	if k.plain {
		r.RopeScaling = nil
		if r.RopeParameters != nil {
			r.RopeParameters = &ropeParameters{RopeTheta: r.RopeParameters.RopeTheta, PartialRotaryFactor: r.RopeParameters.PartialRotaryFactor}
		}
	}
	p := r.parameters()
	p.FullAttention, p.SlidingAttention = nil, nil
	if p.RopeTheta == nil && r.RopeTheta == nil && k.theta != 0 {
		p.RopeTheta = &k.theta
	}
	if k.exactly != 0 {
		p.RopeTheta = &k.exactly
	}
	part := or(p.PartialRotaryFactor, or(r.PartialRotaryFactor, cmp.Or(k.partial, 1)))
	if !(part >= 0 && part <= 1) {
		f.bad("partial_rotary_factor %v is not in [0, 1]", part)
		return NoRope
	}
	if k.whole {
		part = 1
	}
	table := f.table(&r, p, dim, part)
	table.Interleaved = k.interleaved
	f.Network.Ropes = append(f.Network.Ropes, table)
	return len(f.Network.Ropes) - 1
}

// ropeParameters are those of a network with one set.
func (f *fields) ropeParameters() ropeParameters {
	var r rawRope
	if err := unmarshal(f.v, &r); err != nil {
		f.bad("%v", err)
	}
	return r.parameters()
}

// kind is the type of scaling. That of images' positions is none.
func (p *ropeParameters) kind() string {
	if kind := cmp.Or(p.RopeType, p.Type, "default"); kind != "mrope" {
		return kind
	}
	return "default"
}

// ropeOf are the parameters for a kind of layer; nil: there are none of their own.
func (f *fields) ropeOf(layers string) *ropeParameters {
	if layers == "" {
		return nil
	}
	all, _ := f.member("rope_parameters")
	if all == nil || all.Kind() != jsontext.Object {
		return nil
	}
	v := all.Member(layers)
	if v == nil || v.Kind() != jsontext.Object {
		return nil
	}
	var p ropeParameters
	if err := unmarshal(v, &p); err != nil {
		f.bad("rope_parameters.%s: %v", layers, err)
	}
	return &p
}

// table makes the rotary table of part of a head's dimensions.
func (f *fields) table(r *rawRope, p ropeParameters, dim int, part float64) Rope {
	p.PartialRotaryFactor, r.PartialRotaryFactor = nil, nil
	kind := p.kind()
	rotated := int(float64(dim) * part)
	theta := or(p.RopeTheta, or(r.RopeTheta, 10_000))
	switch kind {
	case "proportional":
		// The frequencies are those of the whole head, and the pairs behind its part do not
		// turn (transformers, modeling_rope_utils.py, _compute_proportional_rope_parameters).
		table := Rope{InvFreq: inverseFrequencies(theta, dim), Scale: 1}
		angles := int(part * float64(dim) / 2)
		for i := range table.InvFreq {
			if i >= angles {
				table.InvFreq[i] = 0
			} else {
				table.InvFreq[i] /= float32(or(p.Factor, 1))
			}
		}
		return table
	case "ntk":
		// A fixed scaling of the base and of all frequencies, as the code of gte-multilingual has it.
		factor := or(p.Factor, 1)
		if !(factor >= 1) || p.MixedB != nil {
			f.unsupported("rope type", kind, "ntk with a factor from 1 on and without mixed_b")
			return Rope{}
		}
		table := Rope{InvFreq: inverseFrequencies(theta*factor, rotated), Scale: 1}
		for i := range table.InvFreq {
			table.InvFreq[i] /= float32(math.Pow(factor, 2/float64(rotated)))
		}
		return table
	case "longrope", "su":
		return f.longrope(r, &p, theta, rotated)
	case "dynamic":
		// With an alpha, the base is the same for all lengths (hunyuan_v1_dense).
		alpha := or(p.Alpha, 0)
		if !(alpha > 0) {
			f.unsupported("rope type", kind, "dynamic with an alpha")
			return Rope{}
		}
		base := theta * math.Pow(alpha, float64(rotated)/float64(rotated-2))
		return Rope{InvFreq: inverseFrequencies(base, rotated), Scale: 1}
	}
	r.RopeParameters, r.RopeScaling = &p, nil
	table, length, err := r.rope(rotated, f.MaxSeqTokens)
	if err != nil && f.err == nil {
		f.err = err
	}
	f.MaxSeqTokens = max(f.MaxSeqTokens, length)
	return table
}

// longrope are the tables of short and of long sequences (Ding et al., "LongRoPE", 2024; transformers,
// _compute_longrope_parameters and dynamic_rope_update): one that is longer than the original length is rotated by
// other factors from its first token on. The scales are those of Phi-3.5-MoE, if they are given.
func (f *fields) longrope(r *rawRope, p *ropeParameters, theta float64, rotated int) Rope {
	original, err := r.originalLength(p, f.MaxSeqTokens)
	if err != nil {
		f.err = err
		return Rope{}
	}
	frequencies := func(name string, factors []float64) []float32 {
		table := inverseFrequencies(theta, rotated)
		if len(factors) != len(table) {
			f.bad("%s of rope type longrope has %d numbers for %d frequencies", name, len(factors), len(table))
			return nil
		}
		for i, by := range factors {
			if !(by > 0) {
				f.bad("%s %v of rope type longrope is not positive", name, by)
				return nil
			}
			table[i] = 1 / (float32(by) * powers(theta, rotated, i))
		}
		return table
	}
	factor := or(p.Factor, float64(f.MaxSeqTokens)/original)
	scale := 1.0
	if factor > 1 {
		scale = math.Sqrt(1 + math.Log(factor)/math.Log(original))
	}
	scale = or(p.AttentionFactor, scale)
	table := Rope{InvFreq: frequencies("short_factor", p.ShortFactor), Scale: float32(or(p.ShortScale, scale))}
	if int(original) < f.MaxSeqTokens {
		table.Long, table.LongScale = frequencies("long_factor", p.LongFactor), float32(or(p.LongScale, scale))
		f.Network.LongAfter = int(original)
	}
	return table
}
