// Package pooling says what follows a network whose answer is a vector: which vectors of a prompt are taken,
// the dense layers after them, the normalization, the cut to fewer dimensions, and the heads of classifiers.
// It is the part of a model that sentence-transformers keeps in modules.json and in the folders that it names.
//
// A [Plan] is made once of a model's files, and then applied to each vector on the host. All
// arithmetic is float32, and every sum goes from the first component to the last, so that a result
// depends on its vector alone. What is computed here is little: a layer of 1024 by 1024 takes
// about a millisecond, while the network took a thousand times as many operations.
package pooling
