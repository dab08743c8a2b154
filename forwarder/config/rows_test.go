package config

import (
	"testing"

	"baton/document/documenttest"
)

// TestWhatToWrite holds messages that say what to write instead.
func TestWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"ports: [eth0]\nfail_mode: standlone\n": `f:2:12: fail_mode: "standlone" is not a mode (did you mean standalone?)`,
		"ports: [eth0]\ncontrollers: [tcpp:192.0.2.7:6653, http:192.0.2.7:6653, ssl:192.0.2.7:6653]\n": `f:2:15: controllers[0]: "tcpp:192.0.2.7:6653" is not an endpoint (did you mean tcp?)
f:2:36: controllers[1]: "http:192.0.2.7:6653" is not an endpoint (tcp:HOST:PORT, tls:HOST:PORT or unix:PATH)
f:2:57: controllers[2]: "ssl:192.0.2.7:6653" is not an endpoint (tls:HOST:PORT)`,
		"ports: eth0\n": "f:1:8: ports: is a single value (interfaces by number, or a list of interfaces)",
	} {
		if _, err := Parse("f", []byte(text)); !documenttest.Reported(err, want) {
			t.Errorf("%s: got\n%v\nwant\n%s", text, err, want)
		}
	}
}
