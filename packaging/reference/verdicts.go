package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// programs are those of the kernel that count packets by verdict.
var programs = []struct{ name, title, text string }{
	{"router", "Router", "`baton_router_packets_total`. A packet may have up to 64 KiB, as the kernel handles several segments together."},
	{"quic", "Router, QUIC", "`baton_router_quic_packets_total`: datagrams."},
	{"relay", "Relay", "`baton_relay_packets_total`: packets at the interfaces of the entries."},
	{"forwarder", "Forwarder", "`baton_forwarder_packets_total`. Packet-outs, and copies for buckets that change them, count as packets of their own."},
	{"purge", "Purge", "`baton_purge_verdicts_total`, and `baton purge status`: connections, and timeouts of connections."},
}

var (
	enumeration = regexp.MustCompile(`(?s)\nenum verdict \{\n(.*?)\n\};`)
	member      = regexp.MustCompile(`(?s)([A-Z0-9_]+),(?:[ \t]*/\*(.*?)\*/)?`)
	blank       = regexp.MustCompile(`\s+`)
)

// verdict is one of a program's verdicts.
type verdict struct{ name, meaning string }

// verdicts are those of a program, with the remarks of their enumeration.
func verdicts(root, program string) ([]verdict, error) {
	file := filepath.Join(root, "bpf", program, "types.h")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := enumeration.FindSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("%s has no enum verdict", file)
	}
	var all []verdict
	for _, m := range member.FindAllStringSubmatch(string(found[1]), -1) {
		if m[1] != "VERDICTS" { // how many there are
			all = append(all, verdict{strings.ToLower(m[1]), strings.TrimSpace(blank.ReplaceAllString(m[2], " "))})
		}
	}
	return all, nil
}

func verdictsPage(root string) (string, error) {
	var b strings.Builder
	b.WriteString("# Verdicts\n\nWhat the programs in the kernel have done with packets, and how often, is counted by verdict.\n")
	for _, p := range programs {
		all, err := verdicts(root, p.name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Verdict | Meaning |\n|---|---|\n", p.title, p.text)
		for _, v := range all {
			fmt.Fprintf(&b, "| %s | %s |\n", code(v.name), cell(v.meaning))
		}
	}
	return b.String(), nil
}
