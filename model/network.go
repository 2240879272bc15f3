package model

import (
	"cmp"
	"fmt"
	"strings"
)

// Network describes a decoder as its pieces: what a family reads out of a config.json. Tensors are
// named as in checkpoints, without ".weight" and ".bias". It holds no pointers, so that two
// descriptions can be compared and printed.
type Network struct {
	Embed      string   // the embedding's name; "": model.embed_tokens
	EmbedScale float32  // factor on embeddings; 0: 1
	EmbedNorm  NormSpec // of embeddings
	Positions  string   // learned embeddings of positions are added; "": none
	FirstPos   int      // row of position 0 there
	Types      string   // embeddings of token types are added; "": none

	NumPositions, NumTypes int // rows of Positions and Types

	Layers     []Layer
	Final      NormSpec // before the head
	Head       string   // the head's name; "": lm_head. NoHead: there is none
	HeadBias   bool
	LogitScale float32 // factor on logits; 0: 1
	LogitCap   float32 // 0: none
	Whole      bool    // an encoder: every position sees all others
	Ropes      []Rope  // Attention.Rope indexes them
	LongAfter  int     // a sequence of more tokens uses Rope.Long, from its first token on; 0: none does
	PerLayer   PerLayer
	AltUp      AltUp
	// Skip are tensors that a checkpoint may hold and that are not used: names, or prefixes that
	// end in ".". Towers for images and sound, heads for several tokens at a time, and the like.
	Skip []string
}

// NoHead is the Network.Head of an encoder.
const NoHead = "-"

// Layer is a layer of a network: mixers of tokens, and then networks that treat each token by itself.
// With norms where there are some, and R = Residual:
//
//	m = sum of mixers(InNorm(x));  x = x + R * MixNorm(m)
//	f = sum of feeds(FeedNorm(x)); x = x + R * OutNorm(f)
//	x = x * Scalar
type Layer struct {
	At       string // prefix of the names of its tensors, "model.layers.3."
	InNorm   NormSpec
	Mixers   []Mixer
	MixNorm  NormSpec
	FeedNorm NormSpec
	Feeds    []Feed
	OutNorm  NormSpec
	Residual float32 // 0: 1
	Parallel bool    // the feeds read InNorm(x), which the mixers read, or FeedNorm(x), if there is one, of the same x
	Scalar   string  // a tensor of one number; "": none
	// PostNorms says that the norms MixNorm and OutNorm are of sums: x = MixNorm(x + m), as in BERT.
	PostNorms bool
}

// NormSpec is a norm with its tensor. The zero NormSpec is none.
type NormSpec struct {
	Name    string // below Layer.At; Unweighted: without a tensor
	Kind    NormKind
	Eps     float32
	PlusOne bool // the stored numbers are added to 1
	Raw     bool // the tensor is called Name, without a suffix
	Bias    bool
	Gamma   bool // the tensors end in .gamma and .beta, as in the first checkpoints of BERT
}

// Unweighted is the name of a norm without weights.
const Unweighted = "-"

// Is reports whether there is a norm.
func (n NormSpec) Is() bool { return n.Name != "" }

// A Mixer lets tokens see others: AttentionSpec, LatentSpec, DeltaSpec, MambaSpec, SelectiveSpec or ConvSpec.
type Mixer interface{ mixer(*builder, *Layer) mixer }

// A Feed treats each token by itself: MLPSpec or ExpertsSpec.
type Feed interface{ feed(*builder, *Layer) feed }

// AttentionSpec is attention with a cache of keys and values.
type AttentionSpec struct {
	AttentionNames
	AttentionFactors
	Heads    int
	KVHeads  int
	KeyDim   int
	ValueDim int
	QKVBias  bool
	OutBias  bool
	// KEqualsV says that values are what the product of K gives, before its norm and rotation.
	KEqualsV bool
	// ShareWith is the number of the layer whose cache is read; there are no products of K and V.
	// -1: none. It must name a layer before this one.
	ShareWith int

	QNorm, KNorm  NormSpec // of each head, or of all heads together if RowNorm
	VNorm         NormSpec // of each head
	RowNorm       bool
	PerHeadNorm   bool // QNorm and KNorm have numbers for each head
	NormAfterRope bool
	Rope          int // of Network.Ropes, or NoRope
	Temper        Temper

	AttentionScores
	Window, Chunk int
	Clip          float32 // queries, keys and values are cut off at this and its negative; 0: they are not
	Bidirectional bool
	Gate          OutputGate // how the result is multiplied before the output product
}

// AttentionScores say what is done to scores.
type AttentionScores struct {
	Scale   float32 // 0: 1/sqrt(KeyDim)
	Softcap float32
	Slopes  []float32 // of Attention; nil: none
	Sinks   string    // name of a tensor without suffix; "": none
	Buckets []int32   // of Attention; nil: none
	// Bias is the whole name of their numbers, [BiasRows, Heads], which all layers may share.
	Bias     string
	BiasRows int
}

// AttentionNames are the names of products. With QKV, one tensor with the rows of all three, Q, K and
// V are not used.
type AttentionNames struct {
	Q, K, V, O, QKV string
	Order           QKVOrder
	Turned          bool // tensors are [inputs, outputs], as GPT-2's are
}

// QKVOrder is the order of the rows of QKV.
type QKVOrder uint8

const (
	InTurn     QKVOrder = iota // all queries, all keys, all values
	ByKVHead                   // of each KV head its queries, its key and its value
	InQuarters                 // of each quarter of the heads the queries, the values and the keys (CodeGen)
)

// AttentionFactors are factors on the input, on keys, on what the output product gives, and on
// values; 0: 1.
type AttentionFactors struct{ InScale, KeyScale, OutScale, ValueScale float32 }

// OutputGate is a factor of sigmoid(gate) on the result of attention.
type OutputGate struct {
	// InQ says that each head of Q has as many rows for the gate behind those of the query.
	InQ bool
	// Name is a product of its own, with a column for each head, or for each column if Wide; "": none.
	Name string
	Wide bool
}

// LatentSpec is multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024) in its absorbed
// form: the cache holds the normed latent and the rotated key that all heads share.
type LatentSpec struct {
	Q        string // without a low rank; "": QA, QNorm and QB
	QA, QB   string
	QNorm    NormSpec
	KVA, KVB string // kv_a_proj_with_mqa, kv_b_proj
	KB, VB   string // in place of KVB: [H, KVRank, NopeDim] and [H, ValueDim, KVRank]; "": there is KVB
	KVNorm   NormSpec
	O        string
	Heads    int
	QRank    int
	KVRank   int
	NopeDim  int
	RopeDim  int
	ValueDim int
	Rope     int // of Network.Ropes, or NoRope; its Offset must be 0: it is of the rotated part
	Scale    float32
	Temper   Temper
	Bias     bool // of QA, KVA and O
	Window   int
	// Sparse says that a position sees those alone that Indexer chose, here or in the last layer before that has one.
	Sparse  bool
	Indexer Indexer
	Gate    string // a product with a row for each head, whose sigmoid multiplies what attention gives; "": none
}

// Indexer chooses the positions that latent attention sees: heads of queries, made of the low rank of latent
// attention's, meet a key that all share, in a cache of its own. It is the lightning indexer of DeepSeek V3.2
// (transformers/models/deepseek_v32/modular_deepseek_v32.py).
type Indexer struct {
	Q, K, Weights string // "": there is none
	KNorm         NormSpec
	Heads, Dim    int
	TopK          int
	Rope          int // of Network.Ropes: the first dimensions are rotated
}

// DeltaSpec is a gated delta net, or Kimi delta attention where PerChannel.
type DeltaSpec struct {
	DeltaNames
	ConvWidth        int
	AShape           []int       // of ALog; nil: [ValueHeads]
	AForm            elementwise // what makes the negative A of ALog
	Norm             NormSpec
	GateBy           ActivationKind // of the gate of Norm: SiLU or Sigmoid
	KeyHeads         int
	ValueHeads       int
	KeyDim, ValueDim int
	PerChannel       bool
	LowRank          int // columns between A and AUp, and between Z and ZUp
	BetaScale        float32
	// Tiled says that value head h belongs to key head h mod KeyHeads, and not those of a key head
	// follow each other (GGUF files of Qwen3.5).
	Tiled bool
	Lower float32 // of Delta; 0: none
}

// DeltaNames are the names of the products of a delta net.
type DeltaNames struct {
	// QKVZ and BA are fused products, with the rows of each key head together (Qwen3-Next). If QKVZ is
	// "", there are QKV and Z; if BA is "", there are B and A (Qwen3.5); if QKV is "", too, Q, K and V.
	QKVZ, BA     string
	QKV, Z, B, A string
	Q, K, V      string
	// Conv is the convolution of queries, keys and values; ConvQ, ConvK and ConvV are of each.
	Conv, ConvQ, ConvK, ConvV string
	ALog, DtBias              string // tensors without suffix
	O                         string
	AUp, ZUp                  string // second products, of low rank, after A and Z; "": none
}

// MambaSpec is a layer of Mamba 2.
type MambaSpec struct {
	In, Conv, Out      string // in_proj has rows for z, x, B, C and dt, in this order
	ALog, D, DtBias    string // tensors without suffix
	Norm               NormSpec
	NormGroups         int  // columns are normed in so many groups; 0: in one
	NormThenGate       bool // the gate is applied after the norm
	Heads, HeadDim     int
	Groups, StateDim   int
	ConvWidth          int
	ConvBias, ProjBias bool
	AForm              elementwise // what makes the negative A of ALog
	DtMin, DtMax       float32
	InScale, OutScale  float32    // 0: 1
	Scales             [5]float32 // factors on z, x, B, C and dt; 0: 1
}

// SelectiveSpec is a layer of Mamba 1.
type SelectiveSpec struct {
	In, Conv, X, Dt, Out string // In has rows for x and the gate z; X makes a low rank of dt, B and C of x
	ALog, D              string // tensors without suffix, [Inner, StateDim] and [Inner]
	DtNorm, BNorm, CNorm NormSpec
	Inner, StateDim      int
	DtRank, ConvWidth    int
	ConvBias, ProjBias   bool
	AForm                elementwise // what makes the negative A of ALog
	Act                  Activation
}

// ConvSpec is a gated short convolution (LFM2): out(C * conv(B * x)).
type ConvSpec struct {
	In, Conv, Out string // in_proj has rows for B, C and x, in this order
	Width         int
	Bias          bool
}

// MLPSpec is a feed-forward network.
type MLPSpec struct {
	Gate, Up, Down string // Gate "": there is none, and Act is applied to Up
	GateUp         string // one tensor with the rows of both; "": two tensors
	UpFirst        bool   // the rows of Up come first there
	Inner          int
	Bias           bool
	DownBias       bool // Down has a bias, also where the others have none
	Turned         bool // tensors of a network without gate are [inputs, outputs], as GPT-2's are
	Act            Activation
	Norm, OutNorm  NormSpec // of this network alone
	GateScale      float32  // factors on what the products give; 0: 1
	OutScale       float32
	XIELU          string  // prefix of tensors with the parameters of that activation
	Sparsity       float32 // share of the gate that is cut off as not among the greatest, as in Gemma 3n; 0: none
}

// ExpertsSpec is a mixture of experts, with a shared one beside where there is one.
type ExpertsSpec struct {
	ExpertNames
	Choice
	RouterBias bool
	// RouterNorm is of what the router reads, which is what the experts read if RouterNorm is none.
	// With FromX both read the residual stream, and not what FeedNorm makes of it.
	RouterNorm NormSpec
	RouterMul  float32
	FromX      bool
	BiasShape  []int // of Bias; nil: [Experts]
	Experts    int
	Layout     ExpertLayout
	// EitherWay says that a checkpoint may also have the experts one by one.
	EitherWay  bool
	ExpertBias bool
	Inner      int
	Act        Activation
	Plain      bool // there is no gate
	ScoreInput bool
	Shared     []MLPSpec // nothing or one
	Latent     int       // columns of what the experts read and write, if it is not D; 0: D

	Norm, OutNorm NormSpec // of the experts alone
}

// ExpertNames are the names of what a mixture of experts consists of.
type ExpertNames struct {
	Router          string // product of logits
	Bias            string // selection bias, a tensor without suffix; "": none
	PerExpert       string // a factor for each expert, a tensor without suffix; "": none
	Gate, Up, Down  string // with %d in place of the number of the expert, for layout OneByOne
	GateUp, DownAll string // for the others
	SharedGate      string // a product with one row, whose sigmoid multiplies the shared expert; "": none

	LatentIn, LatentOut string // products to and from Latent columns
}

// Choice says how experts are chosen: see Router.
type Choice struct {
	TopK              int
	Score             ScoreKind
	Groups, TopGroups int
	GroupBest2        bool
	Renorm            bool
	Floor, RenormAdd  float32
	Jitter            float32
	Scale             float32 // 0: 1
}

// ExpertLayout says how a checkpoint stores experts.
type ExpertLayout uint8

const (
	OneByOne        ExpertLayout = iota // tensors for each expert, [F, D] and [D, F]
	Stacked                             // gate_up [E, 2F, D], down [E, D, F]
	StackedPairs                        // the same, with the rows of gate and up in turns
	Transposed                          // gate_up [E, D, 2F], down [E, F, D]
	TransposedPairs                     // the same, with columns of gate and up in turns (gpt-oss)
	StackedApart                        // gate [E, F, D], up [E, F, D] (GGUF)
)

// PerLayer is an embedding for each layer (Gemma 3n and 4): rows of [Layers * Width] are looked up
// by token, combined with a product of the embedding, and each layer adds its part.
type PerLayer struct {
	Width      int // 0: none
	Embed      string
	Vocab      int // rows of Embed
	EmbedScale float32
	Project    string
	ProjScale  float32
	Norm       NormSpec
	SumScale   float32
	Gate, Out  string // in each layer, below Layer.At
	OutNorm    NormSpec
	Act        Activation
}

// layOut decides how tensors are called and experts are stored where that can be either way, by which tensors there are,
// and by their shapes.
func (n *Network) layOut(shapeOf func(name string) ([]int, bool)) {
	has := func(name string) bool { _, ok := shapeOf(name); return ok }
	n.findPrefix(has)
	gamma := n.EmbedNorm.Is() && has(n.EmbedNorm.Name+".gamma")
	n.EmbedNorm.Gamma = gamma
	for i := range n.Layers {
		l := &n.Layers[i]
		l.MixNorm.Gamma, l.OutNorm.Gamma = gamma, gamma
		for k, f := range l.Feeds {
			e, ok := f.(ExpertsSpec)
			switch {
			case !ok:
			case e.EitherWay && has(l.At+fmt.Sprintf(e.Down, 0)+".weight"):
				e.Layout = OneByOne
			case e.Layout == TransposedPairs && has(l.At+e.GateUp+"_blocks"):
				e.Layout = StackedPairs // in MXFP4, whose blocks are of columns, so that the rows are not turned over
			case e.Layout == Transposed && e.upright(l.At, shapeOf):
				e.Layout = Stacked // as transformers writes what it has read
			}
			if ok {
				l.Feeds[k] = e
			}
		}
	}
}

// upright reports whether both tensors of the experts of a layer are stored as [rows, columns], and not turned over. One of them
// alone does not tell if its sizes are equal.
func (s *ExpertsSpec) upright(at string, shapeOf func(name string) ([]int, bool)) bool {
	up, _ := shapeOf(at + s.GateUp)
	down, _ := shapeOf(at + s.DownAll)
	return len(up) == 3 && len(down) == 3 && up[1] == 2*s.Inner && down[2] == s.Inner
}

// prefixes are what the names of the tensors of the part for text begin with, in wrappers that have
// other parts and in checkpoints that other versions of transformers wrote. Models that embed are often
// stored without a prefix, because they have no head beside them.
var prefixes = []string{"model.", "model.language_model.", "language_model.model.", "language_model.", "", "bert.", "roberta.", "distilbert.", "nomic_bert.", "new.", "gte.", "mpnet.",
	"transformer.", "gpt_neox.", "model.decoder.", "decoder.", "backbone.", "model.text_model."}

// embedTails are what follows the prefix in the name of the embedding: that of decoders, of BERT and of ModernBERT.
var embedTails = []string{"embed_tokens", "embeddings.word_embeddings", "embeddings.tok_embeddings", "word_embeddings", "wte", "embed_in", "embeddings", "tok_embeddings"}

// cutEmbedTail divides the name of an embedding; the tail is "" if it is none that is known.
func cutEmbedTail(embed string) (prefix, tail string) {
	for _, t := range embedTails {
		if before, ok := strings.CutSuffix(embed, t); ok {
			return before, t
		}
	}
	return "", ""
}

// moveBiases moves the names of what attention adds to its scores.
func (l *Layer) moveBiases(move func(name *string)) {
	for k, m := range l.Mixers {
		if a, ok := m.(AttentionSpec); ok && a.Bias != "" {
			move(&a.Bias)
			l.Mixers[k] = a
		}
	}
}

// findPrefix looks for the prefix that the checkpoint has, if it is not the one that was expected.
func (n *Network) findPrefix(has func(name string) bool) {
	if n.Head != "" && n.Head != NoHead && !has(n.Head+".weight") {
		n.Head = ""
	}
	if n.Head == "" && has("language_model.lm_head.weight") {
		n.Head = "language_model.lm_head"
	}
	embed := cmp.Or(n.Embed, strings.TrimSuffix(embedName, ".weight"))
	from, tail := cutEmbedTail(embed)
	if tail == "" || has(embed+".weight") {
		return
	}
	for _, to := range prefixes {
		if !has(to + tail + ".weight") {
			continue
		}
		move := func(name *string) {
			if rest, ok := strings.CutPrefix(*name, from); ok {
				*name = to + rest
			}
		}
		n.Embed = to + tail
		for _, name := range []*string{&n.Final.Name, &n.EmbedNorm.Name, &n.Positions, &n.Types, &n.PerLayer.Embed, &n.PerLayer.Project, &n.PerLayer.Norm.Name,
			&n.AltUp.Projections, &n.AltUp.Unembed} {
			move(name)
		}
		for i := range n.Layers {
			move(&n.Layers[i].At)
			n.Layers[i].moveBiases(move)
		}
		for _, s := range n.Skip { // towers stay where they are
			move(&s)
			n.Skip = append(n.Skip, s)
		}
		return
	}
}

// towers are prefixes of tensors that are not of the part for text.
var towers = []string{"visual.", "model.visual.", "vision_tower.", "model.vision_tower.", "vision_model.", "model.vision_model.", "multi_modal_projector.",
	"model.multi_modal_projector.", "mm_projector.", "audio_tower.", "model.audio_tower.", "model.embed_vision.", "model.embed_audio.", "model.vision_embedder.", "mtp.", "model.mtp."}
