// Package check is weir gpu-check: what only a GPU can say about the CUDA
// backend. Cheap evidence comes first; each section is a process of its own, so
// that a fault or a hang ends that section alone, and the results are written
// after each.
//
// A verdict is ok or wrong; a line without one is a measurement. Speeds are
// never wrong: they stand beside the ceilings measured in the same run, and beside
// torch's where the machine has it. A section is a list of tasks that is known
// before it runs, and must end at a time that is known before the first one does:
// what is cut off is listed as not measured, and why.
package check
