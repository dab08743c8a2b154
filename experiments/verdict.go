package experiments

import (
	"context"
	"io"

	"baton/lab/selftest"
)

// LabVerdict is the result of the lab's self-test on this machine, right before the run.
type LabVerdict struct {
	OK      bool             `json:"ok"`
	Failing []string         `json:"failing,omitempty"` // failed checks, in words
	Checks  []selftest.Check `json:"checks,omitempty"`
}

// judgeLab runs the lab's self-test: whether emulated links are accurate on this machine.
func judgeLab(ctx context.Context, out io.Writer) (*LabVerdict, error) {
	r, err := selftest.Run(ctx, out, true)
	if err != nil {
		return nil, err
	}
	v := &LabVerdict{OK: true, Checks: r.Checks}
	for _, c := range r.Failed() {
		v.OK = false
		v.Failing = append(v.Failing, c.String())
	}
	return v, nil
}
