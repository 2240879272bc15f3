// Package sampler defines what the sampling fields of a request do to the logits
// and how a token is drawn from them.
//
// It has two halves. The host's half turns a request into instructions: [Params]
// are the fields of the request, and [State] follows one sequence and plans, for
// each output token, a row of backend.Draws with its filters, its edits of single
// logits and its masks. The device's half carries the instructions out: [Picker]
// draws the token of a row from its logits. The CPU and the simulator run Picker,
// and every other device must draw the same tokens. [PartialDraw] draws them from
// pieces of the logits, for rows that need nothing else.
//
// The package is pure: it starts no goroutine, takes no lock, reads no clock and
// does no I/O. It knows nothing of batches or grammars.
//
// # What a draw depends on
//
// Every token of the vocabulary gets a random number that is a function of the
// seed, the index of the output token and the token id. The token drawn is the one
// whose logit, divided by the temperature, has the largest sum with its random
// number. If the random numbers have the Gumbel distribution, token i is drawn with
// its softmax probability (the Gumbel-max trick).
//
// There is no random generator with a state, so a sequence that was preempted and
// computed again draws the same tokens again. And neither a maximum nor a sum of
// integers depends on the order of its operands, so threads, tiles of the
// vocabulary and other sequences in the batch cannot change a draw.
//
// # An example
//
// Four tokens have the logits 2, 1, 0 and -1. The request says temperature 1,
// top_k 3, top_p 0.9 and seed 2, and the draw is its first (index 0):
//
//	token  z    z-zmax  weight/2^40   above     kept  gumbel   z+gumbel
//	  0     2      0    1             0         yes   -0.046    1.954
//	  1     1     -1    0.368         1         yes    1.150    2.150
//	  2     0     -2    0.135         1.368     no
//	  3    -1     -3    0.050                   no
//
// top_k drops token 3. The weights of the other three add up to 1.503, of which
// top_p wants 0.9, that is 1.353. The tokens above token 2 reach that, so it is
// dropped. Of the two that are left, token 1 has the larger sum and is drawn.
//
// # The draw, exactly
//
// A device must reproduce the following bit for bit.
//
// All arithmetic is IEEE 754 float32, rounded to nearest even, and each operation
// is rounded on its own (never fused), unless another type is named. V is the
// number of logits, less than 2^23. For one row:
//
//  1. Draw.Mask. A token whose bit is 0 is illegal. So is one whose logit is NaN
//     or -Inf. A logit of +Inf counts as the largest finite float32. Illegal
//     tokens have the logit -Inf.
//
//  2. RawLogprobs are taken from the row as it is now; see below.
//
//  3. Draw.Allow in the same way, then the edits of the row, as defined by
//     backend.Edit. The result is treated as in step 1. So an edit makes a token
//     illegal with -Inf and cannot make an illegal token legal.
//
//  4. If Draw.Target >= 0, that is the token. Otherwise, if no token is legal, the
//     token is -1. Otherwise, if Temperature is 0 (or not > 0), the token is the
//     legal one with the largest logit, ties to the lowest id; the filters are
//     ignored.
//
//  5. z = logit * (1/T), where 1/T and then z are clamped to the finite range.
//     (For ProcessedLogprobs of a greedy row z = logit.) zmax is the largest z of
//     a legal token. The weight of a token is the integer w =
//     trunc(exp32(z - zmax) * 2^40), and 0 where z - zmax < -28.
//
//  6. min_p keeps tokens with w >= trunc(min(MinP, 1) * 2^40). Off unless MinP > 0.
//
//  7. top_k keeps, of those, every token that fewer than TopK of them exceed in z,
//     so ties at the boundary stay. Off unless 0 < TopK.
//
//  8. top_p keeps, of those, every token such that the sum of w over the tokens
//     with strictly greater z is less than ceil(P * S). S is the sum of w over the
//     tokens kept so far and P is TopP; P, S, the product and ceil are float64; the
//     comparison is between integers. Off unless 0 < TopP < 1.
//
//  9. The token is the argmax of z + gumbel over the tokens kept, ties to the
//     lowest id.
//
// Steps 6 to 8 each keep exactly the tokens with z above some threshold, because
// exp32 never falls as its argument grows (go test -every tries each float32).
// The most likely token always stays. Sums of weights are exact in uint64.
//
// # The random numbers
//
// They come from Philox 4x32-10 (Salmon et al., SC 2011) with the key (low word,
// high word of Seed) and the counter (token/4, Index, 0, 0x77656972). Output word
// token%4 is x. Then
//
//	v = float32(x) * 2^-32 + 2^-33, at most 1 - 2^-24   // in (0, 1)
//	e = -logSum(-v, 0)      if 1 - v >= sqrt(1/2)       // -ln(1-v)
//	    -log32(1 - v)       otherwise
//	gumbel = -log32(e)
//
// v is a uniform number with 24 significant bits wherever it lies, and large
// variates come from small v. So the tail, which decides between unlikely tokens,
// has full resolution. gumbel lies in [-2.82, 22.88]; the largest is
// 33 ln 2 = 22.874, at x = 0. A token with z + 22.88 < best cannot win, and the
// number of leading zeros of x bounds gumbel more closely. A device may use
// either to skip work, as Picker does.
//
// # The functions
//
// The coefficients are the float32 constants in math.go. Polynomials are evaluated
// by Horner's scheme, highest power first, with each product and each sum rounded.
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
// for a token of the distribution and -Inf for any other; the differences and the
// logarithm (logMass in math.go) are float64. The rank is 1 + the number of tokens
// of the distribution with greater z, where a token outside has -Inf. The top
// tokens are the first of the distribution by z, ties to the lower id, padded with
// token -1 and -Inf. Weights below 2^-40 are lost: at most V * 2^-40 of the
// mass, 1.4e-7 for 150,000 tokens.
//
// A row without log-probabilities has no top tokens: all entries that it asks for
// are padding. A dead row gets token -1 and nothing else.
//
// # Alternatives
//
//   - Walking along the cumulated probabilities until they exceed one random number
//     needs sums in a fixed order, so it would tie all devices to one tile size and
//     could not be done on pieces of a row.
//   - A random generator for each request, as vLLM has, advances with every draw. A
//     sequence that is computed again, or a draw that is discarded, would have to
//     wind it back.
//   - Sums of float32 weights over fixed tiles of the vocabulary, merged in order,
//     were the first plan. Integers are exact and need no order.
//   - -ln(-ln(u)) with u close to 1, the usual form of a Gumbel variate, has only
//     about 2^-24 of resolution where the large variates are.
//   - Sorting the logits makes the filters simple. It is never necessary, because
//     every filter is a threshold: filter.go finds it with a histogram, fast.go
//     with the loops of a device ([Kernels]).
//   - In fast.go, searching for the threshold in the whole row at each step cost
//     1.36 ms for top_p at a temperature of 200 (128,256 tokens, AVX-512). Searching
//     in copies of the values that are left takes 0.39 ms.
//
// # Files
//
// The host's half is params.go and state.go. Of the device's half, read math.go
// (the arithmetic), pick.go (the draw), filter.go (min_p, top_k, top_p) and
// logprobs.go first. partial.go draws from pieces of a row. kernels.go has the loops
// that a device may provide, and fast.go uses them.
//
// The tests compare Picker and State with simple implementations of the rules above
// (reference_test.go, state_test.go), check each rule of the interface
// (rules_test.go), the distribution (distribution_test.go) and every function
// (math_test.go), and pin the bits of it all (golden_test.go).
package sampler
