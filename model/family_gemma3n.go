package model

// gemma3n is Google's Gemma 3n (transformers/models/gemma3n): four residual streams, a gate that is cut off below its
// greatest numbers in the first layers, embeddings for each layer, and keys and values that layers share.
func gemma3n(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-6, tied: true, kvHeads: 2, headDim: 256})
	f.gemma(f.norm)
	f.Network.LogitCap = f.float32("final_logit_softcapping", 30)
	types := f.texts("layer_types")
	isWide := func(i int) bool { return f.isWide(types, i, 5) }
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 10_000, thetaField: "rope_local_base_freq", plain: true})
	wide := f.rope(f.HeadDim, ropeKind{layers: "full_attention", theta: 1_000_000})
	first := f.Layers - f.int("num_kv_shared_layers", 15)
	width := f.int("hidden_size_per_layer_input", 256)
	if f.int("altup_active_idx", 0) != 0 || width < 1 || first < 1 {
		f.bad("altup_active_idx %d, hidden_size_per_layer_input %d and num_kv_shared_layers make no Gemma 3n", f.int("altup_active_idx", 0), width)
		return
	}
	f.gemmaPerLayer(width)
	f.gemmaStreams()
	inner, sparsity := f.gemma3nFeeds()
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Scale = wide, 1
		a.QNorm, a.KNorm, a.VNorm = f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm"), f.norm(Unweighted)
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if !isWide(i) {
			a.Rope, a.Window = local, f.window(i, f.int("sliding_window", 512))
		}
		if i >= first {
			a.ShareWith = first - 1
			for a.ShareWith >= 0 && isWide(a.ShareWith) != isWide(i) {
				a.ShareWith--
			}
			if a.ShareWith < 0 {
				f.bad("there is no layer whose keys and values layer %d could share", i)
			}
		}
		m := f.gemmaMLP(inner[i])
		m.Sparsity = sparsity[i]
		l.Mixers, l.Feeds = []Mixer{a}, []Feed{m}
		f.sandwich(l, f.norm)
	})
	if first < f.Layers && f.err == nil {
		f.skipShared(first)
	}
}

// gemma3nFeeds are the widths of each layer's feed-forward network, and the share of its gate that is cut off.
func (f *fields) gemma3nFeeds() (inner []int, sparsity []float32) {
	inner, sparsity = make([]int, f.Layers), make([]float32, f.Layers)
	for i := range inner {
		inner[i] = f.Intermediate
		if i < 10 && f.Layers > 10 {
			sparsity[i] = 0.95
		}
	}
	if f.Intermediate == 0 {
		inner = f.ints("intermediate_size")
	}
	if f.has("activation_sparsity_pattern") {
		sparsity = get[[]float32](f, "activation_sparsity_pattern", nil)
	}
	if len(inner) < f.Layers || len(sparsity) < f.Layers {
		f.bad("intermediate_size or activation_sparsity_pattern has fewer entries than the %d layers", f.Layers)
		return make([]int, f.Layers), make([]float32, f.Layers)
	}
	for i := range f.Layers {
		if inner[i] < 1 || !(sparsity[i] >= 0 && sparsity[i] < 1) {
			f.bad("layer %d has a feed-forward network of %d with a sparsity of %v", i, inner[i], sparsity[i])
		}
	}
	return inner, sparsity
}

// gemmaStreams are the residual streams.
func (f *fields) gemmaStreams() {
	n := f.int("altup_num_inputs", 4)
	if n < 2 || n > 16 {
		f.bad("altup_num_inputs %d is not in [2, 16]", n)
	}
	f.Network.AltUp = AltUp{Streams: n, Projections: f.prefix + "altup_projections.%d", Unembed: f.prefix + "altup_unembed_projections.%d",
		Router: "altup.modality_router", Predict: "altup.prediction_coefs", Correct: "altup.correction_coefs", RouterNorm: f.norm("altup.router_norm"),
		LaurelLeft: "laurel.linear_left", LaurelBack: "laurel.linear_right", LaurelRank: f.int("laurel_rank", 64), LaurelNorm: f.norm("laurel.post_laurel_norm")}
	if f.bool("altup_correct_scale", true) {
		f.Network.AltUp.CorrectScale = "altup.correct_output_scale"
	}
	if f.Network.AltUp.LaurelRank < 1 {
		f.bad("laurel_rank %d is not positive", f.Network.AltUp.LaurelRank)
	}
}
