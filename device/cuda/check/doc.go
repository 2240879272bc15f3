// Package check is weir gpu-check: the tests of the CUDA backend that need a GPU, and
// measurements of its speed.
//
// A check is a list of sections: single kernels against float64, then a trained model against
// the CPU, then rates of kernels and of whole steps. The cheapest evidence comes first. Each
// section is a process of its own, so that a fault or a hang ends that section alone, and the
// report is written after each.
//
// A line of the report with a verdict is ok or wrong; a line without one is a measurement.
// Speeds are never wrong: they are reported beside the ceilings that were measured in the same
// run, and beside torch's on the same machine, if it is installed. The tasks of a section are
// known before it runs, and so is the time at which it must end: tasks that are cut off are
// listed as not measured, with the reason.
//
// check.go and run.go run sections, report.go writes what they found. rows.go, products.go,
// packs.go, attention.go, draws.go and probes.go check kernels, and network.go a model. rates.go,
// rowrates.go, attnrates.go and steps.go measure, and torch.go compares with torch.
// reference.go has the arithmetic in float64.
package check
