package cpu

// impls are the implementations that this build has and this processor can
// run, best first. Tests run all of them through the same checks.
var impls = append(native(), generic())

// Impls names the tiers that can be forced here, best first. The last is
// "generic", plain Go.
func Impls() []string {
	names := make([]string, len(impls))
	for i, im := range impls {
		names[i] = im.name
	}
	return names
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
