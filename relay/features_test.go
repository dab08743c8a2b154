package relay

import (
	"os"
	"strings"
	"testing"

	"baton/relay/config"
)

func TestPipesLack(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name             string
		size, most, soft int
		resource, admin  bool
		want             string
	}{
		{"all is allowed", 4 * mib, mib, 64 * mib, true, false, ""},
		{"no limit on all together", mib, mib, 0, false, false, ""},
		{"root of old", mib, mib, 64 * mib, false, true, ""},
		{"too large", 4 * mib, mib, 64 * mib, false, true, "limited by fs.pipe-max-size to 1048576 bytes of 4194304"},
		{"too many", mib, mib, 64 * mib, false, false, "all but 64 are limited to two pages"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := pipesLack(tt.size, tt.most, tt.soft, tt.resource, tt.admin)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// What the sockets of a configuration are asked for is tried on this kernel.
func TestTunings(t *testing.T) {
	cfg := &config.Config{
		Limits:  config.Limits{Pipe: 4096},
		Peers:   []config.Peer{{Tuning: config.Tuning{Congestion: "no-such-thing"}}},
		Trunks:  &config.Trunks{Tuning: config.Tuning{Congestion: "reno", Buffer: 64 << 10}},
		Entries: []config.Entry{{Congestion: "reno"}},
	}
	got := make(map[string]string)
	for _, f := range tunings(cfg) {
		if f.Used != (f.Reason == "") {
			t.Errorf("%+v", f)
		}
		got[f.Name] = f.Reason
	}
	if len(got) != 4 || got["congestion reno"] != "" || got["window"] != "" || !strings.Contains(got["congestion no-such-thing"], "using the system's") {
		t.Errorf("%v", got)
	}
	if _, has := got["pipes"]; !has {
		t.Errorf("%v: nothing of pipes", got)
	}
	if os.Geteuid() == 0 && strings.Contains(got["congestion no-such-thing"], "not in net.ipv4") {
		t.Errorf("%v: the kernel does not have it", got)
	}
}
