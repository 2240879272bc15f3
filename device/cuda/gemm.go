//go:build cuda && linux && amd64

package cuda

import (
	"fmt"
	"slices"

	"weir/device/cuda/kernels"
)

// Names of the products, by kernels.GemmRows and then the wide ones.
var mmaNames, wgmmaNames = func() (mma [len(formats)][]string, wgmma []string) {
	for f := range formats {
		for _, n := range kernels.GemmRows {
			mma[f] = append(mma[f], fmt.Sprintf("gemm_%s_n%d", formats[f].name, n))
		}
		mma[f] = append(mma[f], fmt.Sprintf("gemm_%s_128", formats[f].name))
	}
	for _, n := range append(slices.Clone(kernels.GemmRows), 128, 256) {
		wgmma = append(wgmma, fmt.Sprintf("gemm_bf16_h%d", n))
	}
	return mma, wgmma
}()

// gemm queues y = x·wᵀ. Quantized weights are only multiplied by mma.sync. The number of
// rows decides which kernel of a family is used, and changes no bit.
func (d *Device) gemm(p *param, y uint64, ldy int, x uint64, ldx, rows, epilogue int) {
	splits, tiles := kernels.Splits(p.n, p.k)
	few := -1 // the few-row kernel that takes all rows at once
	for i := len(kernels.GemmRows) - 1; i >= 0; i-- {
		if rows <= kernels.GemmRows[i] {
			few = i
		}
	}
	gx, gy := cdiv(p.n, kernels.Tile), splits
	if p.as != BF16 || d.cfg.Products == MMA {
		if few < 0 {
			few = len(kernels.GemmRows)
			gx, gy = cdiv(p.n, kernels.WideCols), cdiv(rows, kernels.WideRows)
		}
		d.launch(mmaNames[p.as][few], gx, gy, 1, y, x, p.data, p.bias, d.work.gemm, d.work.counters,
			i32(rows), i32(p.n), i32(p.k), i32(ldx), i32(ldy), i32(splits), i32(tiles), i32(epilogue))
		return
	}
	if d.idle() {
		return
	}
	t := tensor{base: x, rows: rows, cols: p.k, ld: ldx}
	if few >= 0 {
		t.boxRows = kernels.GemmRows[few]
	} else {
		few, t.boxRows = len(kernels.GemmRows), 128
		if splits == 1 && rows > 128 {
			few, t.boxRows = few+1, 256
		}
		gx, gy = cdiv(p.n, kernels.WideCols), cdiv(rows, t.boxRows)
	}
	err := d.run.launchTensor(d.lib.kernels[wgmmaNames[few]], gx, gy, 1, t, y, p.data, p.bias, d.work.gemm, d.work.counters,
		i32(rows), i32(p.n), i32(p.k), i32(ldy), i32(splits), i32(tiles), i32(epilogue))
	if err != nil {
		d.fail(err)
	}
}
