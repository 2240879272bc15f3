package weights

import (
	"fmt"
	"slices"
	"strings"
)

// Identity tells files that were written at different times or places apart, without reading
// them: the device, inode, size and time of change of each. It is "" if the weights are in memory, or
// if the system does not say.
func (c *Checkpoint) Identity() string {
	var list []string
	for _, m := range c.files {
		if m.File == nil {
			continue
		}
		id, err := identityOf(m.File.fd)
		if err != nil {
			return ""
		}
		list = append(list, id)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// fileIdentity is the identity of a file.
func fileIdentity(device, inode uint64, size, changed int64) string {
	return fmt.Sprintf("%d:%d:%d:%d", device, inode, size, changed)
}
