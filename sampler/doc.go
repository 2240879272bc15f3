// Package sampler decides what a request's sampling fields do to its logits and
// draws the tokens. Params and State are the host's half: they turn a request
// into backend.Draw rows, edits and masks. Picker is the device's half, and the
// reference for every device that draws by itself. PartialDraw draws the same tokens
// from pieces of the logits, where a row asks for nothing else.
//
// # The draw, exactly
//
// A device must reproduce the following bit for bit. Nothing in it depends on
// the order in which tokens are visited: maxima and sums of integers have none.
// So threads, tiles of the vocabulary and batch mates cannot show.
//
// All arithmetic is IEEE 754 float32, round to nearest even, each operation
// rounded on its own (never fused), unless another type is named. V is the
// number of logits, less than 2^23. For one row:
//
//  1. Draw.Mask. A token whose bit is 0 is illegal. So is one whose logit is NaN
//     or -Inf. A logit of +Inf counts as the largest finite float32. Illegal
//     tokens have the logit -Inf.
//
//  2. RawLogprobs are those of the row as it is now; see below.
//
//  3. Draw.Allow in the same way, then the edits of the row, as defined by
//     backend.Edit. The result is treated as in step 1, so an edit makes a token
//     illegal with -Inf and cannot make an illegal one legal.
//
//  4. Draw.Target >= 0: that is the token. Otherwise, if no token is legal, the
//     token is -1. Otherwise, if Temperature is 0 (or not > 0), the token is the
//     legal one with the largest logit, ties to the lowest id; filters are
//     ignored.
//
//  5. z = logit * (1/T), where 1/T and then z are clamped to the finite range.
//     (For ProcessedLogprobs of a greedy row z = logit.) zmax is the largest z of
//     a legal token. The weight of a token is the integer w =
//     trunc(exp32(z - zmax) * 2^40), and 0 where z - zmax < -28.
//
//  6. min_p keeps tokens with w >= trunc(min(MinP, 1) * 2^40). Off unless MinP > 0.
//
//  7. top_k keeps, of those, every token that fewer than TopK of them exceed in z:
//     ties at the boundary stay. Off unless 0 < TopK.
//
//  8. top_p keeps, of those, every token such that the sum of w over the tokens
//     with strictly greater z is less than ceil(P * S): S is the sum of w over
//     the tokens kept so far, P is TopP, and P, S, the product and ceil are
//     float64; the comparison is between integers. Off unless 0 < TopP < 1.
//
//  9. The token is the argmax over the tokens kept of z + gumbel, ties to the
//     lowest id.
//
// Steps 6 to 8 each keep exactly the tokens with z above some threshold, because
// exp32 never falls as its argument grows (go test -every tries each float32).
// The most likely token always stays. Sums of weights are exact in uint64.
//
// # The random numbers
//
// Philox 4x32-10 (Salmon et al., SC 2011) with key (low, high word of Seed) and
// counter (token/4, Index, 0, 0x77656972); output word token%4 is x. Then
//
//	v = float32(x) * 2^-32 + 2^-33, at most 1 - 2^-24   // in (0, 1)
//	e = -logSum(-v, 0)      if 1 - v >= sqrt(1/2)       // -ln(1-v)
//	    -log32(1 - v)       otherwise
//	gumbel = -log32(e)
//
// v is a uniform number with 24 significant bits wherever it lies, and large
// variates come from small v, so the tail that decides between unlikely tokens
// has full resolution. gumbel lies in [-2.82, 22.88]: the largest is
// 33 ln 2 = 22.874 at x = 0. A token with z + 22.88 < best cannot win, and the
// number of leading zeros of x bounds gumbel more closely still; a device may
// use either to skip work, as Picker does.
//
// # The functions
//
// Coefficients are the float32 constants in math.go; Horner's scheme, highest
// power first, each product and each sum rounded.
//
//	exp32(x), -28 <= x <= 0:
//	    k = (x*log2e + 1.5*2^23) - 1.5*2^23
//	    r = (x - k*ln2Hi) - k*ln2Lo
//	    m = 1 + (r + (r*r)*q(r))          q of degree 4, e4 ... e0
//	    exp32 = m * 2^k                   by adding k to the exponent bits
//	    exp32(0) is exactly 1; relative error below 9e-8.
//
//	logSum(f, e) = ln(1+f) + e ln 2:
//	    y = (f*f)*p(f) + e*ln2Lo          p of degree 8, l8 ... l0
//	    logSum = (f + y) + e*ln2Hi
//
//	log32(x) = logSum(f, e), x = (1+f) * 2^e, sqrt(1/2) <= 1+f < sqrt(2), split
//	    at the bit pattern 0x3f3504f3; relative error below 9e-8.
//
// # Log-probabilities
//
// The distribution is either that of step 2 (RawLogprobs, with z = logit) or
// that over the tokens kept after step 8 (ProcessedLogprobs; of a greedy row,
// the tokens legal after step 3). With S the sum of w over its tokens,
//
//	logprob = float32((z - zmax) - ln(S / 2^40))
//
// for a token of the distribution and -Inf for any other; differences and
// logarithm (logMass in math.go) are float64. The rank is 1 + the number of
// tokens of the distribution with greater z, where a token outside has -Inf. The
// top tokens are the distribution's first by z, ties to the lower id, padded
// with token -1 and -Inf. Weights below 2^-40 are lost: at most V * 2^-40 of the
// mass, 1.4e-7 for 150,000 tokens.
//
// A row without log-probabilities has no top tokens: what it asked for is
// padding. A dead row gets token -1 and nothing else.
package sampler
