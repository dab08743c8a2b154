package experiments

import (
	"context"
	"io"

	"baton/lab/selftest"
)

// judgeLab asks the lab's self-test whether emulated links do on this machine what they promise.
func judgeLab(ctx context.Context, progress io.Writer) (*LabVerdict, error) {
	r, err := selftest.Run(ctx, progress, false)
	if err != nil {
		return nil, err
	}
	v := &LabVerdict{OK: true}
	for _, c := range r.Failed() {
		v.OK = false
		v.Failing = append(v.Failing, c.String())
	}
	return v, nil
}
