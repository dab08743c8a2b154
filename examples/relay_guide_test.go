package examples_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/relay/plan"
	"baton/relay/trunkproto"
)

// TestRelayGuideNamesNumbers: the guide explains each metric, status and wait that there is.
func TestRelayGuideNamesNumbers(t *testing.T) {
	text := read(t, relayGuide)
	for what, names := range map[string][]string{
		"metric": found(t, "../relay/metrics/series.go", `n\.(?:Counter|Gauge|GaugeInt|Yes|Seconds)\("([a-z_]+)"`, 40),
		"status": found(t, "../relay/trunkproto/answer.go", `[A-Z][A-Za-z]+: "([a-z_]+)"`, 11)[1:], // but connected
		"wait":   found(t, "../relay/worker/counters.go", `wait[A-Z][a-z]+: "([a-z_]+)"`, 5),
	} {
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the guide lacks the %s %s", what, name)
			}
		}
	}
	code := append(found(t, "../relay/metrics/*.go", `"([a-z_]+)"`, 40), found(t, "../relay/trunkproto/answer.go", `"([a-z_]+)"`, 11)...)
	code = append(code, found(t, "../datapath/relay/verdict_names.go", `"([a-z_]+)"`, 20)...)
	for _, m := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\| [a-z, ]*\\|").FindAllStringSubmatch(numbersOf(t, text), -1) {
		for _, name := range strings.Split(m[1], ", ") {
			if name = strings.Trim(name, "`"); !slices.Contains(code, name) && name != "build_info" && name != "other" {
				t.Errorf("the guide has %s, which is not there", name)
			}
		}
	}
}

// numbersOf is the guide's section about numbers.
func numbersOf(t *testing.T, text string) string {
	t.Helper()
	_, section, found := strings.Cut(text, "\n## Numbers\n")
	if !found {
		t.Fatal("the guide has no section about numbers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// block returns what stands between fences in the guide and begins so.
func block(t *testing.T, text, begin string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)```[a-z]*\\n(" + regexp.QuoteMeta(begin) + ".*?)```").FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the guide has no block that begins with %q", begin)
	}
	return m[1]
}

// TestRelayGuideBytes: the trunk in the guide is one.
func TestRelayGuideBytes(t *testing.T) {
	parts := make(map[string][]byte)
	part := ""
	for line := range strings.Lines(block(t, read(t, relayGuide), "hello, from oregon")) {
		if m := regexp.MustCompile(`^(hello|header|answer), from `).FindStringSubmatch(line); m != nil {
			part = m[1]
			continue
		}
		digits := regexp.MustCompile(`^[0-9a-f]+( [0-9a-f]+)*(  |$)`).FindString(line)
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		parts[part] = append(parts[part], b...)
	}
	hello, n, err := trunkproto.ParseHello(parts["hello"])
	if err != nil || n != len(parts["hello"]) {
		t.Fatalf("hello of %d bytes: %d, %v", len(parts["hello"]), n, err)
	}
	h, n, err := trunkproto.ParseHeader(parts["header"], &hello, trunkproto.NewSealer([]byte("thirty-two bytes that are secret")))
	if err != nil || n != len(parts["header"]) {
		t.Fatalf("header of %d bytes: %d, %v", len(parts["header"]), n, err)
	}
	if h.Client != netip.MustParseAddrPort("192.0.2.1:50000") || h.Server != netip.MustParseAddrPort("198.51.100.7:443") ||
		h.Via.String() != "oregon" || h.Passed.String() != "berlin" || h.Probe {
		t.Errorf("header %+v", h)
	}
	a, n, err := trunkproto.ParseAnswer(parts["answer"])
	if want := (trunkproto.Answer{Status: trunkproto.Connected, Hop: 1, RTT: 25 * time.Millisecond}); err != nil || n != len(parts["answer"]) || a != want {
		t.Errorf("answer %+v, %d, %v", a, n, err)
	}
}

// TestRelayGuideStatuses: the guide's numbers of statuses are those on the wire.
func TestRelayGuideStatuses(t *testing.T) {
	_, list, _ := strings.Cut(read(t, relayGuide), "The first byte of an answer is the status: ")
	list, _, _ = strings.Cut(list, ".\n")
	for i, item := range regexp.MustCompile(`,\s`).Split(list, -1) {
		if want := fmt.Sprintf("%d `%s`", i+1, trunkproto.Status(i+1)); item != want {
			t.Errorf("the guide has %q, not %q", item, want)
		}
	}
	if last := strings.Count(list, ",") + 2; trunkproto.Status(last).String() != fmt.Sprintf("status_%d", last) {
		t.Errorf("the guide lacks the status %s", trunkproto.Status(last))
	}
}

// TestRelayFolders: the architecture names each folder of the relay, and what they import of it is there.
func TestRelayFolders(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../docs/architecture.md"), "\n## The relay's part\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(relay(?:/[a-z]+)?)` \\| .* \\| (.*)\\|$").FindAllStringSubmatch(section, -1)
	if len(rows) < 10 {
		t.Fatalf("only %d folders are named", len(rows))
	}
	for _, row := range rows {
		imported := found(t, "../"+row[1]+"/*.go", `"baton/relay/([a-z]+)"`, 0)
		for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row[2], -1) {
			if !slices.Contains(imported, m[1]) {
				t.Errorf("%s does not import %s", row[1], m[1])
			}
		}
		if row[2] == "" && len(imported) > 0 {
			t.Errorf("%s imports %v", row[1], imported)
		}
	}
}

// TestRelayGuidePlan: the plan in the guide is what comes of the paper's distances.
func TestRelayGuidePlan(t *testing.T) {
	const client, server = "192.0.2.20:443", "198.51.100.5:80"
	m := make(plan.Matrix)
	for _, d := range []struct {
		from, to string
		ms       time.Duration
	}{
		{"frankfurt", client, 25}, {"frankfurt", server, 238}, {"frankfurt", "mumbai", 215}, {"mumbai", client, 240}, {"mumbai", server, 25},
		{client, server, 265},
	} {
		m.Set(d.from, d.to, d.ms*time.Millisecond)
	}
	p, err := plan.Choose(plan.Question{
		Client: client, Server: server, Relays: []plan.Relay{{Name: "frankfurt"}, {Name: "mumbai"}}, RTTs: m, Start: 160 * 1460,
	})
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for line := range strings.Lines(p.String()) {
		want.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if got := block(t, read(t, relayGuide), "from "+client); got != want.String() {
		t.Errorf("the guide has\n%s\nit should be\n%s", got, want.String())
	}
}
