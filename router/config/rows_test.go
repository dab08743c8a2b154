package config

import (
	"strings"
	"testing"

	"baton/document/documenttest"
)

// TestWhatToWrite: messages that say what to write instead.
func TestWhatToWrite(t *testing.T) {
	const pools = "pools:\n  video: {surrogates: [{name: s1, address: \"10.2.1.2:80\"}]}\n"
	vip := func(route string) string {
		return "vips:\n  - address: \"10.9.9.9:80\"\n    interfaces: [eth0]\n    routes:\n      - " + route + "\n"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"a single interface": {"vips: [{address: \"10.9.9.9:80\", interfaces: eth0, routes: [{pool: video}]}]\n" + pools,
			"f:1:45: vips[0].interfaces: must be a list: [eth0]"},
		"headers as a mapping": {vip("{match: {headers: {X-Device: phone}}, pool: video}") + pools,
			"f:5:28: vips[0].routes[0].match.headers: is a mapping, and must be a list (such as [{name: X-Device, value: phone}])"},
		"IPv6 without quotes": {"vips:\n  - address: [2001:db8::9]:80\n    interfaces: [eth0]\n    routes: [{pool: video}]\n" + pools,
			`f:2:27: is not YAML: value is not allowed in this context (quote it: "[2001:db8::9]:80")`},
		"a tab": {"vips:\n\t- address: \"10.9.9.9:80\"\n" + pools,
			"f:2:1: is not YAML: found character '\t' that cannot start any token (indent with spaces)"},
		"a surrogate's name": {vip("{pool: video}") + "pools:\n  video: {surrogates: [{name: s1, address: \"web1.example.net:80\"}]}\n",
			`f:7:44: pools.video.surrogates[0].address: "web1.example.net:80" has a host name, and names are not looked up (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		"a misspelt pool": {vip("{pool: vdeo}") + pools, `f:5:16: vips[0].routes[0].pool: "vdeo" is not a pool (did you mean video?)`},
		"a misspelt policy": {vip("{pool: video}") + "pools:\n  video: {policy: roundrobin, surrogates: [{name: s1, address: \"10.2.1.2:80\"}]}\n",
			`f:7:19: pools.video.policy: "roundrobin" is not a policy (did you mean round-robin?)`},
		"IPv6 without brackets": {vip("{pool: video}") + "pools:\n  video: {surrogates: [{name: s1, address: \"2001:db8::1:80\"}]}\n",
			`f:7:44: pools.video.surrogates[0].address: "2001:db8::1:80" is an IPv6 address without brackets (with a port it is written "[2001:db8::7]:443")`},
		"a mapping for a list": {"vips: {address: \"10.9.9.9:80\", interfaces: [eth0], routes: [{pool: video}]}\n" + pools,
			"f:1:8: vips: is a mapping, and must be a list (with a dash before each entry: - address: ...)"},
		"misspelt names beside others": {"limits: {sessions: many}\n" + vip("{pool: vdeo}") +
			"pools:\n  video:\n    policy: nearest\n    nearest: [{prefix: 10.0.0.0/8, surrogates: [s2]}]\n    surrogates: [{name: s1, address: \"10.2.1.2:80\", weight: -1}]\n", strings.Join([]string{
			`f:1:20: limits.sessions: "many" is out of range (a whole number from 1 to 16777216)`,
			`f:6:16: vips[0].routes[0].pool: "vdeo" is not a pool (did you mean video?)`,
			`f:10:49: pools.video.nearest[0].surrogates[0]: "s2" is not a surrogate of this pool (did you mean s1?)`,
			`f:11:61: pools.video.surrogates[0].weight: "-1" is out of range (a whole number from 0 to 256)`,
		}, "\n")},
		"three mistakes": {"limits: {sessions: many}\n" + vip("{pool: video, poool: x}") + "pools:\n  video: {surrogates: [{name: s1, address: x}]}\n", strings.Join([]string{
			`f:1:20: limits.sessions: "many" is out of range (a whole number from 1 to 16777216)`,
			"f:6:23: vips[0].routes[0].poool: is not a key (did you mean pool?)",
			`f:8:44: pools.video.surrogates[0].address: "x" is not address:port (such as "192.0.2.7:443" or "[2001:db8::7]:443")`,
		}, "\n")},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("f", []byte(tt.text)); !documenttest.Reported(err, tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

// TestOldKeys: a renamed key is refused with its new name, and is not suggested for another.
func TestOldKeys(t *testing.T) {
	const want = "f:1:1: listen: is not a key (did you mean control, metrics or state?)"
	if _, err := Parse("f", []byte("listen: {control: /a}\n"+minimal)); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := Parse("f", []byte("lisen: {}\n"+minimal)); err == nil || strings.Contains(err.Error(), "listen") {
		t.Errorf("the old key is suggested: %v", err)
	}
}
