package main

import (
	"bytes"
	"os"
	"testing"
)

func TestPageHasTypesOfAPI(t *testing.T) {
	has, err := os.ReadFile("../web/src/api.ts")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(has, source()) {
		t.Error("web/src/api.ts is not what package api gives: run go generate ./dashboard")
	}
}
