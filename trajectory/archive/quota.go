package archive

import "errors"

// ErrQuota refuses to log more for a tenant.
var ErrQuota = errors.New("archive: the tenant has logged as much as it may")

// CheckQuota returns ErrQuota if a tenant would have logged more than most bytes with more
// of them. 0 is no bound. Two uploads at a time may both be the last one.
func (a *Archive) CheckQuota(tenant string, more, most int64) error {
	if most <= 0 {
		return nil
	}
	used, err := a.Used(tenant)
	if err == nil && used+more > most {
		err = ErrQuota
	}
	return err
}
