package daemon

import "testing"

func TestRestartError(t *testing.T) {
	if err := RestartError("r.yaml"); err != nil {
		t.Error(err)
	}
	want := "r.yaml: name, limits.flows: takes effect only after a restart"
	if err := RestartError("r.yaml", "name", "limits.flows"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
