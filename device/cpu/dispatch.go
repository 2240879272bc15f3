package cpu

import (
	"fmt"
	"slices"
	"strings"
)

// impls are the implementations that this build has and this processor can
// run, best first. Tests run all of them through the same checks.
var impls = complete(append(native(), generic()))

// complete gives the tiers plain code for what they have no kernel for and what is not worth
// one.
func complete(list []*impl) []*impl {
	plain := list[len(list)-1]
	for _, im := range list {
		if im.blocks.widen[Q8] == nil {
			im.blocks.widen = plain.blocks.widen
		}
	}
	return list
}

// Impls names the tiers that can be forced here, best first. The last is
// "generic", plain Go.
func Impls() []string {
	names := make([]string, len(impls))
	for i, im := range impls {
		names[i] = im.name
	}
	return names
}

// Tier is the name of the tier that Config.Impl chooses.
func Tier(wish string) (string, error) {
	im, err := choose(wish)
	if err != nil {
		return "", err
	}
	return im.name, nil
}

// choose finds the best tier that a wish leaves. A wish has the name of a tier, or
// features and tiers to go without, each with a minus sign ("-avx512vnni"), or both,
// separated by commas. A tier is left out with any of the features that it needs.
func choose(wish string) (*impl, error) {
	var name string
	var without []string
	if wish != "" {
		for part := range strings.SplitSeq(wish, ",") {
			switch no, negative := strings.CutPrefix(part, "-"); {
			case negative && slices.ContainsFunc(impls, func(im *impl) bool { return im.name == no || slices.Contains(im.needs, no) }):
				without = append(without, no)
			case !negative && name == "" && find(part) != nil && part != "":
				name = part
			default:
				return nil, unknownTier(part)
			}
		}
	}
	for _, im := range impls {
		if !slices.Contains(without, im.name) && !slices.ContainsFunc(im.needs, func(f string) bool { return slices.Contains(without, f) }) && (name == "" || name == im.name) {
			return im, nil
		}
	}
	return nil, fmt.Errorf("%w: %q leaves no implementation of %s", ErrConfig, wish, strings.Join(Impls(), ", "))
}

func unknownTier(name string) error {
	var features []string
	for _, im := range impls {
		for _, f := range im.needs {
			if !slices.Contains(features, "-"+f) {
				features = append(features, "-"+f)
			}
		}
	}
	err := fmt.Errorf("%w: implementation %q is not available here; there are %s", ErrConfig, name, strings.Join(Impls(), ", "))
	if len(features) > 0 {
		err = fmt.Errorf("%w, and %s to go without", err, strings.Join(features, " "))
	}
	return err
}

// find returns the named implementation, the best one for "", nil if there is
// none of that name.
func find(name string) *impl {
	for _, im := range impls {
		if im.name == name || name == "" {
			return im
		}
	}
	return nil
}
