package archive

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
