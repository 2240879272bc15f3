package main

import (
	"log/slog"

	"weir/device/cpu"
	"weir/internal/tilecache"
	"weir/model"
)

// tileOptions say where packed weights are kept between starts.
type tileOptions struct {
	dir   string // "": nowhere
	limit size
	log   *slog.Logger // nil: nothing is logged
}

func (o *tileOptions) bind(f *flagSet) {
	o.limit = 64 << 30
	f.StringVar(&o.dir, "repack-cache", "", "`folder` for weights as the CPU device packs them, so that the next start of a quantized model reads them instead of packing them again; several servers may share it (default: they are packed at every start)")
	f.Var(&o.limit, "repack-cache-size", "most bytes of all files in --repack-cache; those that were used longest ago are removed")
}

// leastFree is how much of the disk the cache of packed weights leaves free.
const leastFree = 1 << 30

// open opens the cache for a network on a device of configuration c, or returns nil if there is none.
func (o *tileOptions) open(network *model.Model, c *cpu.Config) *tilecache.Cache {
	if o.dir == "" {
		return nil
	}
	log, identity := o.log, network.Identity()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if identity == "" {
		log.Info("--repack-cache has no effect: the model is not in files")
		return nil
	}
	return tilecache.Open(tilecache.Config{Dir: o.dir, Limit: int64(o.limit), MinFree: leastFree, Log: log}, identity+" "+c.WeightType.String())
}
