package kernels

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// programs are the folders of datapath with programs for the kernel, by the part that loads them.
var programs = map[string]string{
	"balance": "balance", "forwarder": "forwarder", "purge": "purge", "quic": "router", "relay": "relay", "router": "router", "sockmap": "relay",
}

const costTest = "TestVerifierCost" // loads all programs of a package

// loads are the steps in which the kernel's verifier meets every program.
func loads() []step {
	var all []step
	for _, p := range slices.Sorted(maps.Keys(programs)) {
		load := step{name: "programs of " + p + " load", part: programs[p], shows: "the verifier takes them", pkg: "datapath/" + p, tests: "^" + costTest + "$", bound: 5 * time.Minute}
		if p == "balance" || p == "sockmap" { // one small program each
			load.tests = ""
		}
		all = append(all, load)
	}
	return all
}

// longTests is a pattern of the tests of a package that are not of its kernel ring (ring 3): the long ones, and the cost, which a step of its own
// shows.
func longTests(pkg string) string {
	names := []string{costTest}
	files, _ := filepath.Glob(filepath.Join(sources, pkg, "*_long_test.go"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			panic(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// matrix are the steps of the whole matrix.
func matrix() []step {
	all := quick()
	for _, p := range []string{"forwarder", "purge", "quic", "relay", "router"} { // all of the others has run by now
		all = append(all, step{
			name: "kernel ring of " + p, part: programs[p], shows: "each program does with a packet what its model does", pkg: "datapath/" + p, skip: longTests("datapath/" + p),
			bound: 25 * time.Minute,
		})
	}
	return slices.Concat(all, labSteps(), lastSteps())
}

// lastSteps are what a user does with the whole.
func lastSteps() []step {
	return []step{{
		name: "demo", part: "router", shows: "the checks of `make demo` hold", script: "baton-lab demo --runs 1 --largest 1048576", bound: 20 * time.Minute,
	}, {
		name: "package", part: "package", shows: "the commands of docs/install.md; a session through reload, kill -9 and upgrade; nothing left after a purge",
		script: "packaging/kernels/package.sh /srv/packages docs/install.md", bound: 15 * time.Minute, systemd: true,
	}}
}

// quick are the steps of every run.
func quick() []step {
	return append(loads(), step{
		name: "check-host", part: "host", shows: "every part works here, as `baton check-host` tells", bound: 5 * time.Minute,
		script: `baton check-host > /tmp/host; cat /tmp/host; awk '/^PART/ { on = 1; next } on && $2 != "works" { bad = 1 } END { exit bad || !on }' /tmp/host`,
	}, step{
		name: "the router serves", part: "router", shows: "requests go to the server that should answer, by a handoff in the kernel",
		pkg: "router/test", tests: "^TestModes$", bound: 5 * time.Minute,
	})
}
