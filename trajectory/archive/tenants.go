package archive

import (
	"errors"

	"weir/store"
)

// Tenants returns the tenants that have batches of a model.
func (a *Archive) Tenants(model string) (list []string, err error) {
	err = a.View("", func(v *View) error {
		return a.eachBatch(v.r, nil, func(_ []byte, b tenantBatch) bool {
			if b.Model == model && (len(list) == 0 || list[len(list)-1] != b.tenant) { // batches are in the order of tenants
				list = append(list, b.tenant)
			}
			return true
		})
	})
	return list, err
}

// Used returns how many bytes a tenant has logged and not deleted, as they were sent.
func (a *Archive) Used(tenant string) (n int64, err error) {
	err = a.View(tenant, func(v *View) error {
		return v.Models(func(m *Model) bool {
			n += m.Bytes
			return true
		})
	})
	return n, err
}

// Owned is a created model of some tenant.
type Owned struct {
	Tenant string
	*Created
}

// Names are what a model is called outside of the archive: its name alone, and with its entity
// and project (acme/demo/agent).
func (m *Created) Names() []string {
	return []string{m.Name, m.Entity + "/" + m.Project + "/" + m.Name}
}

// Named returns the models of all tenants that were created with a name, in either form of
// Created.Names.
func (a *Archive) Named(name string) (list []Owned, err error) {
	err = a.View("", func(v *View) error {
		var bad error
		err := v.r.Scan(store.Range{Prefix: []byte{tagCreated}}, func(key, value []byte) bool {
			var m *Created
			tenant, _, err := store.CutString(key[1:])
			if err == nil {
				m, err = decodeCreated(value)
			}
			if bad = err; bad != nil {
				return false
			}
			if names := m.Names(); names[0] == name || names[1] == name {
				list = append(list, Owned{tenant, m})
			}
			return true
		})
		return errors.Join(bad, err)
	})
	return list, err
}
