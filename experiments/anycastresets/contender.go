package anycastresets

import (
	"context"
	"fmt"
	"path/filepath"

	"baton/experiments"
	"baton/lab"
)

// clients are what downloads, by the name of their contender, the baseline first.
func clients() []client {
	baton := func(more ...string) func(baton, url, file string) lab.Program {
		return func(baton, url, file string) lab.Program {
			return lab.Program{Path: baton, Args: append([]string{"get", "-sS", "-o", file, url}, more...), Name: "baton"}
		}
	}
	// again runs a program until it says that it has succeeded. Its arguments have $0 for the file, $1 for the folder and $2 for the URL.
	again := func(line string) func(_, url, file string) lab.Program {
		return func(_, url, file string) lab.Program {
			return lab.Program{Path: "sh", Args: []string{"-c", "until " + line + " 2>/dev/null; do :; done", file, filepath.Dir(file), url}}
		}
	}
	return []client{
		{name: "undisturbed", is: "curl, and no resets", needs: "curl", program: func(_, url, file string) lab.Program {
			return lab.Program{Path: "curl", Args: []string{"-q", "-sS", "-o", file, url}}
		}},
		{name: "baton", is: "`baton get`", resets: true, program: baton(), unfinished: ".part"},
		{name: "baton-route", is: "`baton get`, whose connections are all reset at once", resets: true, all: true, program: baton(), unfinished: ".part"},
		{name: "baton-single", is: "`baton get --connections 1`: the paper's client", resets: true, program: baton("--connections", "1"), unfinished: ".part"},
		{name: "curl", is: "`curl -C -` in a loop", resets: true, needs: "curl", program: again(`curl -q -s -C - -o "$0" "$2"`)},
		{name: "wget2", is: "`wget2 --continue` in a loop until all bytes are there: version 1.99 takes a reset for the end, 2.2 forgets at its next try what it has", resets: true, needs: "wget2", program: again(fmt.Sprintf(`wget2 -q --no-config -c --tries=1 -P "$1" "$2"; [ "$(stat -c %%s "$0")" = %d ]`, size))},
		{name: "aria2", is: "`aria2c --max-tries=0`, one connection", resets: true, needs: "aria2c", program: func(_, url, file string) lab.Program {
			return lab.Program{Path: "aria2c", Args: []string{"--no-conf", "-q", "--max-tries=0", "--retry-wait=0", "-x1", "-s1", "--file-allocation=none",
				"--allow-overwrite", "-d", filepath.Dir(file), "-o", filepath.Base(file), url}}
		}},
	}
}

func contenders() []experiments.Contender[*Topology] {
	var all []experiments.Contender[*Topology]
	for _, c := range clients() {
		all = append(all, experiments.Contender[*Topology]{Name: c.name, Is: c.is, Start: func(_ context.Context, t *Turn) error {
			t.Topology.turn = c.name
			return nil
		}})
	}
	return all
}
