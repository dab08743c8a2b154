package main

import (
	"bytes"
	"os"
	"testing"
)

// TestGeneratedIsCurrent: what is committed is what the specification file says.
func TestGeneratedIsCurrent(t *testing.T) {
	files, err := generate("openflow13.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what openflow13.yaml says: run go generate ./openflow and commit", name)
		}
	}
}

func TestGoName(t *testing.T) {
	for name, want := range map[string]string{
		"ipv6_nd_sll": "IPv6NDSLL", "10MB_HD": "10MBHD", "GET_CONFIG_REQUEST": "GetConfigRequest", "INC_TSVAL": "IncTSval",
	} {
		if got := goName(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
