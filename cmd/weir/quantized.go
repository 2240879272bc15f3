package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/device/cpu"
	"weir/model"
	"weir/weights"
)

// growth is how much memory, for their size in their file, quantized weights take without being
// asked about, in hundredths.
const growth = 115

// A conversion is quantized weights that a device keeps in another way than their file.
type conversion struct {
	types  map[string]bool // as they are stored
	as     string          // what becomes of them
	stored int64           // bytes
	taken  int64           // bytes of memory
	lossy  bool            // some numbers change
}

// quantizedTensors are the tensors of linear layers that are quantized in their file.
func quantizedTensors(m *model.Model) (list []weights.Tensor) {
	for _, x := range m.Matrices() {
		if x.Use != model.Linear && x.Use != model.Gated {
			continue
		}
		for _, t := range x.Rows {
			if t.Quantized() {
				list = append(list, t)
			}
		}
	}
	return list
}

// conversions are what c does to quantized weights that it does not keep as they are: rounded
// ones, and ones that take more memory than growth.
func conversions(quantized []weights.Tensor, c cpu.Config) (list []conversion, err error) {
	auto := c
	auto.WeightType = cpu.Auto
	by := map[cpu.Format]*conversion{}
	for _, t := range quantized {
		as, err := c.StoredAs(t)
		if err != nil {
			return nil, err
		}
		own, err := auto.StoredAs(t)
		if err != nil {
			return nil, err
		}
		taken, err := c.MatrixBytes(model.Matrix{Use: model.Linear, Rows: []weights.Tensor{t}})
		if err != nil {
			return nil, err
		}
		stored := storedBytes(&t)
		lossy := as != cpu.F32 && as != own || c.WeightType != cpu.Auto && c.WeightType != cpu.F32
		if !lossy && taken <= stored/100*growth {
			continue
		}
		v := by[as]
		if v == nil {
			v = &conversion{types: map[string]bool{}, as: formatName(as)}
			by[as] = v
		}
		v.types[t.TypeName()] = true
		v.stored, v.taken, v.lossy = v.stored+stored, v.taken+taken, v.lossy || lossy
	}
	for _, f := range slices.Sorted(maps.Keys(by)) {
		list = append(list, *by[f])
	}
	return list, nil
}

// formatName is what the flags call a format.
func formatName(f cpu.Format) string {
	for name, g := range weightFormats {
		if f == g {
			return name
		}
	}
	return f.String()
}

func (v *conversion) String() string {
	how := "widened, without loss, to"
	if v.lossy {
		how = "rounded to"
	}
	return fmt.Sprintf("weights in %s are %s %s: %s of memory instead of %s", strings.Join(slices.Sorted(maps.Keys(v.types)), ", "), how, v.as, inUnits(v.taken), inUnits(v.stored))
}

// checkQuantized refuses to change numbers of a file that is quantized already, or to take much
// more memory than it has bytes, unless the flags say so. The lines are for the log.
func (o *cpuOptions) checkQuantized(quantized []weights.Tensor, c cpu.Config) (lines []string, err error) {
	if len(quantized) == 0 {
		if o.requantize {
			lines = append(lines, "--requantize has no effect: the model is not quantized")
		}
		return lines, nil
	}
	if err := o.refuseRequantizing(quantized); err != nil {
		return nil, err
	}
	list, err := conversions(quantized, c)
	if err != nil {
		return nil, usageError{err}
	}
	var refused []string
	for i := range list {
		lines = append(lines, list[i].String())
		if o.dtype != "float32" && o.quantization == "auto" && !o.convert {
			refused = append(refused, list[i].String())
		}
	}
	if len(refused) == 0 {
		return lines, nil
	}
	err = errors.New(strings.Join(refused, "; ") + ": --allow-converted-weights accepts that")
	if o.dtype != "auto" {
		err = usageError{fmt.Errorf("--dtype %s: %w, and without --dtype the weights stay as they are where this device has a format for them", o.dtype, err)}
	}
	return nil, err
}

// refuseRequantizing refuses --quantization for weights that are quantized already.
func (o *cpuOptions) refuseRequantizing(quantized []weights.Tensor) error {
	if len(quantized) == 0 || o.quantization == "auto" || o.requantize {
		return nil
	}
	return usageError{fmt.Errorf("--quantization %s: the weights are quantized already (%s), and rounding them once more loses more than either would alone: leave it out, or add --requantize",
		o.quantization, typesOf(quantized))}
}

// typesOf names the types of tensors.
func typesOf(list []weights.Tensor) string {
	types := map[string]bool{}
	for _, t := range list {
		types[t.TypeName()] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(types)), ", ")
}

// storedBytes is the size of all that a tensor is stored in.
func storedBytes(t *weights.Tensor) int64 {
	n := int64(len(t.Data))
	if p := t.Packed; p != nil {
		n += int64(len(p.Scales.Data)) + int64(len(p.Zeros.Data)) + 4*int64(len(p.Order))
	}
	return n
}
