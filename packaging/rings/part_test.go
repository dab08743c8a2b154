package main

import (
	"slices"
	"testing"
)

func TestPackagesOf(t *testing.T) {
	all := []listed{
		{ImportPath: "baton"},
		{ImportPath: "baton/datapath"},
		{ImportPath: "baton/datapath/quic", Imports: []string{"baton/datapath"}},
		{ImportPath: "baton/datapath/relay"},
		{ImportPath: "baton/router", Imports: []string{"baton/packet", "baton/datapath"}},
		{ImportPath: "baton/router/quic", Imports: []string{"baton/datapath/quic"}},
		{ImportPath: "baton/routers", Imports: []string{"baton/datapath/relay"}},
		{ImportPath: "baton/kubernetes/translate"},
	}
	for part, want := range map[string][]string{
		"router":     {"baton/datapath", "baton/datapath/quic", "baton/router", "baton/router/quic"},
		"bpf":        {"baton/datapath", "baton/datapath/quic", "baton/datapath/relay"},
		"kubernetes": {"baton/kubernetes/translate"},
		"route":      nil,
	} {
		got, err := packagesOf(part, all)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %v, %v", part, got, err)
		}
	}
}

func TestOfPart(t *testing.T) {
	tests := []struct {
		name     string
		packages []string
		test     test
		want     bool
	}{
		{"unit test", []string{"baton/router"}, test{pkg: "baton/router", name: "TestX", ring: 1}, true},
		{"program", []string{"baton/datapath/router"}, test{pkg: "baton/datapath/router", name: "TestX", ring: 3}, true},
		{"lab", []string{"baton/router"}, test{pkg: "baton/router", name: "TestX", ring: 4}, false},
		{"other part", []string{"baton/router"}, test{pkg: "baton/relay", name: "TestX", ring: 1}, false},
		{"rule of programs", []string{"baton/datapath/router"}, test{pkg: "baton", name: "TestBPFStructs", ring: 1}, true},
		{"no programs", []string{"baton/policy"}, test{pkg: "baton", name: "TestBPFStructs", ring: 1}, false},
		{"other rule", []string{"baton/datapath/router"}, test{pkg: "baton", name: "TestImports", ring: 1}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ofPart(tt.packages)(tt.test); got != tt.want {
				t.Errorf("chosen: %t", got)
			}
		})
	}
}
