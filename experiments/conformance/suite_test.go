package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// openSuite opens the os-ken of packaging/python.sh, or skips.
func openSuite(t *testing.T) *Suite {
	t.Helper()
	python, err := FindPython("../../bin/python/bin/python")
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	s, err := OpenSuite(python)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSuite counts what the installed suite is known to hold.
func TestSuite(t *testing.T) {
	s := openSuite(t)
	counts, seen := map[string]int{}, map[string]bool{}
	for _, c := range s.Cases {
		counts["all"]++
		counts[c.Dir()]++
		for _, f := range c.Features {
			counts[f]++
		}
		if seen[c.String()] {
			t.Errorf("two cases are named %s", c)
		}
		seen[c.String()] = true
		if (c.Load > 0) != (c.Rate > 0) {
			t.Errorf("%v: load of %v at %d packets/s", c, c.Load, c.Rate)
		}
	}
	for name, want := range map[string]int{"all": 991, "match": 714, "action": 226, "meter": 36, "group": 15, "answer table miss": 238,
		"answer packet-in": 238, "answer egress": 464, "answer throughput": 51, "match pbb_isid": 12, "match pbb_isid masked": 9,
		"group select": 12, "meter drop": 18, "meter dscp_remark": 18, "set tunnel_id": 21, "match tunnel_id masked": 9,
		"action copy_ttl_out": 2, "instruction write_metadata": 18, "packet ipv6 extension headers": 16} {
		if counts[name] != want {
			t.Errorf("%s: %d cases, want %d", name, counts[name], want)
		}
	}
}

const sample = `[
  "match: SAMPLE",
  {"description": "one", "prerequisite": [
     {"OFPFlowMod": {"table_id": 0, "match": {"OFPMatch": {"oxm_fields": [{"OXMTlv": {"field": "eth_type", "value": 34887}}]}},
       "instructions": [
         {"OFPInstructionActions": {"actions": [{"OFPActionPopMpls": {"ethertype": 2048}}], "type": 4}},
         {"OFPInstructionGotoTable": {"table_id": 1}}]}},
     {"OFPFlowMod": {"table_id": 1, "match": {"OFPMatch": {"oxm_fields": [{"OXMTlv": {"field": "ipv4_src", "value": "10.0.0.0", "mask": "255.0.0.0"}}]}},
       "instructions": [{"OFPInstructionActions": {"actions": [
         {"OFPActionSetField": {"field": {"OXMTlv": {"field": "ipv4_dst", "value": "10.0.0.9"}}}},
         {"OFPActionOutput": {"port": 2}}], "type": 4}}]}}],
   "tests": [{"ingress": ["ethernet(ethertype=0x8847)", "mpls(label=1)", "ipv6(ext_hdrs=[hop_opts()])", "bytes(b'')"], "egress": ["ethernet()"]}]},
  {"description": "two", "prerequisite": [{"OFPGroupMod": {"group_id": 0, "type": 1, "buckets": []}},
     {"OFPMeterMod": {"meter_id": 1, "bands": [{"OFPMeterBandDscpRemark": {"rate": 1}}]}}],
   "tests": [{"ingress": {"packets": {"data": ["ethernet()", "arp()"], "pktps": 175, "duration_time": 30}}, "egress": {"throughput": []}}]},
  {"description": "three", "prerequisite": [], "tests": [{"ingress": ["ethernet()"], "table-miss": [0]}, {"ingress": ["ethernet()"], "PACKET_IN": ["ethernet()"]}]}
]`

func TestParseFile(t *testing.T) {
	cases, err := parseFile("match/SAMPLE", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name, features string
		load           time.Duration
		rate           int
	}{
		{"match/SAMPLE: one", "action output, action pop_mpls, answer egress, instruction goto_table, match eth_type, match ipv4_src masked, " +
			"packet ipv6, packet ipv6 extension headers, packet mpls, set ipv4_dst", 0, 0},
		{"match/SAMPLE: two", "answer throughput, group select, meter dscp_remark, packet arp", 30 * time.Second, 175},
		{"match/SAMPLE: three", "answer packet-in, answer table miss", 0, 0},
	}
	if len(cases) != len(want) {
		t.Fatalf("%d cases, want %d", len(cases), len(want))
	}
	for i, w := range want {
		c := cases[i]
		if c.String() != w.name || c.Dir() != "match" || c.Index != i || c.Load != w.load || c.Rate != w.rate {
			t.Errorf("got %+v, want %+v", c, w)
		}
		if got := strings.Join(c.Features, ", "); got != w.features {
			t.Errorf("%s\n got %s\nwant %s", c, got, w.features)
		}
	}
	if _, err := parseFile("match/BROKEN", []byte(`["match", {"description": 7}]`)); err == nil || !strings.Contains(err.Error(), "match/BROKEN") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestSelect(t *testing.T) {
	s := &Suite{Cases: []Case{{File: "action/00_OUTPUT", Name: "a"}, {File: "match/11_IPV4_SRC", Name: "b"}, {File: "match/11_IPV4_SRC_Mask", Name: "c"},
		{File: "match/12_IPV4_DST", Name: "d"}}}
	tests := []struct {
		name              string
		folders, patterns []string
		want, err         string
	}{
		{"all", nil, nil, "abcd", ""},
		{"a folder", []string{"match"}, nil, "bcd", ""},
		{"a file, not the one that begins like it", []string{"match/11_IPV4_SRC"}, nil, "b", ""},
		{"a file as it is on disk", []string{"match/11_IPV4_SRC.json"}, nil, "b", ""},
		{"a pattern", nil, []string{"IPV4"}, "bcd", ""},
		{"two patterns", nil, []string{"IPV4", "Mask: c$"}, "c", ""},
		{"both", []string{"action"}, []string{": a"}, "a", ""},
		{"no such folder", []string{"match", "matches"}, nil, "", `--dir "matches": want action, group`},
		{"no such case", []string{"action"}, []string{"IPV4"}, "", "--case IPV4: no case of 4 matches"},
		{"no expression", nil, []string{"("}, "", `--case "("`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chosen, err := s.Select(tt.folders, tt.patterns)
			got := ""
			for _, c := range chosen {
				got += c.Name
			}
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestFindPython(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, given := range []string{"", "elsewhere/python"} {
		if path, err := FindPython(given); err == nil || !strings.Contains(err.Error(), "make deps") {
			t.Errorf("%q: got %q, %v; want what brings it", given, path, err)
		}
	}
}

func TestDivide(t *testing.T) {
	cases := []Case{{Name: "a"}, {Name: "b", Load: time.Second, Rate: 20000}, {Name: "c", Load: time.Minute, Rate: 175}, {Name: "d"}}
	light, loaded := divide(cases)
	name := func(c Case) string { return c.Name }
	if got := names(light, name) + " " + names(loaded, name); got != "cad b" {
		t.Errorf("got %q, want the long ones first and the heavy ones apart", got)
	}
	if !slices.EqualFunc(cases, []string{"a", "b", "c", "d"}, func(c Case, n string) bool { return c.Name == n }) {
		t.Error("the cases are no longer in order")
	}
}

func names[T any](list []T, name func(T) string) string {
	text := ""
	for _, e := range list {
		text += name(e)
	}
	return text
}
