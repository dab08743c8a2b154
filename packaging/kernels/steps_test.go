package kernels

import "time"

// loads are the steps in which the kernel's verifier meets every program.
func loads() []step {
	var all []step
	for _, p := range []string{"balance", "forwarder", "purge", "quic", "relay", "router", "sockmap"} {
		all = append(all, step{
			name: "programs of " + p + " load", part: p, shows: "the verifier takes them", pkg: "datapath/" + p, tests: "^(TestVerifierCost|TestLoad)$",
			bound: 5 * time.Minute,
		})
	}
	return all
}

// matrix are the steps of the whole matrix.
func matrix() []step {
	all := quick()
	for _, p := range []string{"balance", "forwarder", "purge", "quic", "relay", "router", "sockmap"} {
		all = append(all, step{
			name: "kernel ring of " + p, part: p, shows: "each program does with a packet what its model does", pkg: "datapath/" + p, skip: "^TestVerifierCost$",
			bound: 20 * time.Minute,
		})
	}
	return append(append(all, labSteps()...), step{
		name: "demo", part: "router", shows: "the checks of `make demo` hold", script: "baton-lab demo --runs 1", bound: 20 * time.Minute,
	}, step{
		name: "package", part: "package", shows: "the commands of docs/install.md; a session through reload, kill -9 and upgrade; nothing left after a purge",
		script: "packaging/kernels/package.sh /srv/packages docs/install.md", bound: 15 * time.Minute, systemd: true,
	})
}

// quick are the steps of every run.
func quick() []step {
	return append(loads(), step{
		name: "the router serves", part: "router", shows: "requests go to the server that should answer, by a handoff in the kernel",
		pkg: "router", tests: "^TestKeepAlive$", bound: 5 * time.Minute,
	})
}
